// Looks up rows of a learned table: y = W[x] + b for whole numbers x.
//   bottom (..)  ->  top (.., num_output);  W (input_dim, num_output), b (num_output)
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/kernels/blocks.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/softmax.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class Embed final : public Layer<T> {
 public:
  explicit Embed(const LayerSpec& spec) : Layer<T>(spec), param_(spec.param().embed_param()) {
    spec.Check(param_.num_output() > 0, "embed_param.num_output", "num_output is 0 or missing",
               "give the width of a row, e.g. num_output: 100");
    spec.Check(param_.input_dim() > 0, "embed_param.input_dim", "input_dim is 0 or missing",
               "give the number of rows: one more than the largest input");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    return {bottom[0].Append(param_.num_output())};
  }
  std::vector<ParamDef> DeclareParams(const Shapes&) const override {
    std::vector<ParamDef> params = {
        {{param_.input_dim(), param_.num_output()}, param_.weight_filler()}};
    if (param_.bias_term()) params.push_back({{param_.num_output()}, param_.bias_filler()});
    return params;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const int64_t items = bottom[0]->count();
    const T* x = bottom[0]->data(stream);
    const LabelCount count = CountLabels<T>(stream, {items, param_.input_dim(), 1}, x, nullptr);
    if (count.bad >= 0) {
      throw DataError(fmt::format("layer \"{}\" (Embed)", this->name()), count.bad,
                      fmt::format("input {} is not one of the {} rows of the table",
                                  count.bad_label, param_.input_dim()),
                      "give inputs from 0 to input_dim less 1, or a larger input_dim");
    }
    T* y = top[0]->mutable_data(stream);
    GatherRows<T, T>(stream, items, param_.num_output(), x, this->blob(kWeight).data(stream), y);
    if (param_.bias_term()) {
      AddToRows<T>(stream, items, param_.num_output(), this->blob(kBias).data(stream), y);
    }
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    this->spec().Check(!propagate_down[0], "propagate_down", "the inputs of Embed have no gradient",
                       "take them from a layer without parameters, and leave force_backward away");
    const int64_t items = bottom[0]->count();
    const T* dy = top[0]->diff(stream);
    if (this->param_propagate_down(kWeight)) {
      ScatterAddRows<T, T>(stream, items, param_.num_output(), bottom[0]->data(stream), dy,
                           this->blob(kWeight).mutable_diff(stream));
    }
    if (param_.bias_term() && this->param_propagate_down(kBias)) {
      AddColumnSums<T>(stream, items, param_.num_output(), dy,
                       this->blob(kBias).mutable_diff(stream));
    }
  }

 private:
  enum { kWeight, kBias };
  const EmbedParameter param_;
};

const RegisterLayer<Embed> kRegistered{{.type = "Embed",
                                        .bottoms = {1, 1},
                                        .tops = {1, 1},
                                        .summary = "Looks up rows of a learned table by index."}};

}  // namespace
}  // namespace carafe
