// Blobs made by fillers, for tests and timing. Constant ones are filled once, others in every pass:
// row r (axis 0) of worker w is slot r * workers + w of the pass and draws by itself, so P workers
// see what one with the global batch sees.
#include <fmt/format.h>

#include "carafe/layers/filler.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

template <typename T>
class DummyData final : public Layer<T> {
 public:
  explicit DummyData(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(spec.param().dummy_data_param()),
        filled_(static_cast<size_t>(spec.param().top_size()), false) {
    const int tops = spec.param().top_size();
    const int fillers = param_.data_filler_size();
    spec.Check(fillers == 0 || fillers == 1 || fillers == tops, "dummy_data_param.data_filler",
               fmt::format("{} fillers are given for {} tops", fillers, tops),
               "give none, one for all tops, or one per top");
    const bool legacy = param_.num_size() > 0;
    spec.Check(!legacy || param_.shape_size() == 0, "dummy_data_param.num",
               "shape and num, channels, height, width are both given", "keep shape");
    if (legacy) {
      for (const int given :
           {param_.num_size(), param_.channels_size(), param_.height_size(), param_.width_size()}) {
        spec.Check(given == 1 || given == tops, "dummy_data_param.num",
                   fmt::format("num, channels, height and width are needed once or {} times", tops),
                   "give each once for all tops, or once per top; or use shape");
      }
    } else {
      spec.Check(param_.shape_size() == 1 || param_.shape_size() == tops, "dummy_data_param.shape",
                 fmt::format("{} shapes are given for {} tops", param_.shape_size(), tops),
                 "give one shape for all tops, or one per top");
    }
  }
  Shapes InferShapes(const Shapes&) const override {
    Shapes tops;
    for (int i = 0; i < this->spec().param().top_size(); ++i) tops.push_back(TopShape(i));
    return tops;
  }
  void Forward(RunContext& run, Blobs<T>, Blobs<T> top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      const FillerParameter& filler = Filler(static_cast<int>(i));
      if (filled_[i] && filler.type() == "constant") continue;
      FillRows(run, filler, i, *top[i]);
      filled_[i] = true;
    }
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}

 private:
  Shape TopShape(int top) const {
    if (param_.num_size() == 0) {
      const BlobShape& shape = param_.shape(param_.shape_size() == 1 ? 0 : top);
      return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
    }
    const auto pick = [top](const auto& values) -> int64_t {
      return values.Get(values.size() == 1 ? 0 : top);
    };
    return {pick(param_.num()), pick(param_.channels()), pick(param_.height()),
            pick(param_.width())};
  }
  const FillerParameter& Filler(int top) const {
    if (param_.data_filler_size() == 0) return FillerParameter::default_instance();  // constant 0
    return param_.data_filler(param_.data_filler_size() == 1 ? 0 : top);
  }
  // Fillers see one row at a time, as a blob whose axis 0 is 1.
  void FillRows(RunContext& run, const FillerParameter& filler, size_t top, Blob<T>& blob) const {
    const Shape& shape = blob.shape();
    const Shape row_shape = shape.rank() > 0 ? shape.With(0, 1) : shape;
    const RandomKey key = DrawKey(run, *this);
    const uint64_t pass_key =
        MixSeed(MixSeed(key.key, static_cast<uint64_t>(key.pass)), static_cast<uint64_t>(top));
    std::vector<T> values;
    values.reserve(static_cast<size_t>(shape.Count()));
    for (int64_t row = 0; row < shape.LegacyDim(0); ++row) {
      const uint64_t row_key = MixSeed(pass_key, static_cast<uint64_t>(run.replica.Slot(row)));
      for (const double value : FillerValues(filler, row_shape, row_key, this->name())) {
        values.push_back(static_cast<T>(value));
      }
    }
    blob.SetData(run.stream, values);
  }

  const DummyDataParameter param_;
  std::vector<bool> filled_;  // per top
};

const RegisterLayer<DummyData> kRegistered{{.type = "DummyData",
                                            .bottoms = {0, 0},
                                            .tops = {1, Arity::kAny},
                                            .summary = "Blobs made by fillers.",
                                            .is_data = true}};

}  // namespace
}  // namespace carafe
