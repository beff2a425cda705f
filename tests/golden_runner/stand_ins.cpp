#include "stand_ins.h"

#include <cmath>
#include <functional>
#include <set>
#include <sstream>

#include "carafe/base/file.h"
#include "carafe/layers/layer.h"
#include "hdf5_file.h"

namespace carafe::golden {
namespace {

std::set<std::string>& StandIns() {
  static std::set<std::string> types;
  return types;
}

// All rows of the listed files, in order; pass n takes n * G + slot, over and over.
template <typename T>
class Hdf5DataStandIn final : public Layer<T> {
 public:
  explicit Hdf5DataStandIn(const LayerSpec& spec) : Layer<T>(spec) {
    const HDF5DataParameter& param = spec.param().hdf5_data_param();
    spec.Check(!param.shuffle(), "hdf5_data_param.shuffle", "the stand-in does not shuffle", "");
    std::istringstream list(ReadFile(param.source()));
    for (std::string file; std::getline(list, file);) {
      if (!file.empty()) AddFile(Hdf5File(file));
    }
  }
  Shapes InferShapes(const Shapes&) const override {
    Shapes shapes;
    for (const Array& rows : tops_) {
      shapes.push_back(Shape(rows.shape).With(0, Batch()));
    }
    return shapes;
  }
  void Forward(RunContext& run, Blobs<T>, Blobs<T> top) override {
    const int64_t batch = Batch();
    const bool deal = this->spec().phase() == TRAIN;
    const int64_t first = deal ? run.pass.index * run.replica.GlobalRows(batch) : 0;
    for (size_t t = 0; t < top.size(); ++t) {
      const Array& rows = tops_[t];
      const int64_t row_size = Shape(rows.shape).Count(1);
      std::vector<T> values;
      for (int64_t r = 0; r < batch; ++r) {
        const int64_t at = deal ? first + run.replica.Slot(r) : run.pass.index * batch + r;
        const auto begin = rows.values.begin() + at % rows.shape[0] * row_size;
        values.insert(values.end(), begin, begin + row_size);
      }
      top[t]->SetData(run.stream, values);
    }
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}

 private:
  int64_t Batch() const { return this->spec().param().hdf5_data_param().batch_size(); }
  void AddFile(const Hdf5File& file) {
    const LayerParameter& param = this->spec().param();
    tops_.resize(static_cast<size_t>(param.top_size()));
    for (int t = 0; t < param.top_size(); ++t) {
      Array& rows = tops_[static_cast<size_t>(t)];
      const Array more = file.Read(param.top(t));
      const int64_t before = rows.shape.empty() ? 0 : rows.shape[0];
      rows.shape = more.shape;
      rows.shape[0] += before;
      rows.values.insert(rows.values.end(), more.values.begin(), more.values.end());
    }
  }
  std::vector<Array> tops_;
};

// y = f(x), dx = dy f'(y), where the slope is a function of the value.
template <typename T, double (*Value)(double), double (*Slope)(double)>
class ElementwiseStandIn final : public Layer<T> {
 public:
  explicit ElementwiseStandIn(const LayerSpec& spec) : Layer<T>(spec) {}
  Shapes InferShapes(const Shapes& bottom) const override { return bottom; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    std::vector<T> values = bottom[0]->DataToHost(run.stream);
    for (T& value : values) value = static_cast<T>(Value(value));
    top[0]->SetData(run.stream, values);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    if (!propagate_down[0]) return;
    const std::vector<T> values = top[0]->DataToHost(run.stream);
    std::vector<T> diffs = top[0]->DiffToHost(run.stream);
    for (size_t i = 0; i < diffs.size(); ++i) diffs[i] *= static_cast<T>(Slope(values[i]));
    bottom[0]->SetDiff(run.stream, diffs);
  }
};

double TanHValue(double x) { return std::tanh(x); }
double TanHSlope(double y) { return 1 - y * y; }
double SigmoidValue(double x) { return 1 / (1 + std::exp(-x)); }
double SigmoidSlope(double y) { return y * (1 - y); }

template <typename T>
using TanHStandIn = ElementwiseStandIn<T, TanHValue, TanHSlope>;
template <typename T>
using SigmoidStandIn = ElementwiseStandIn<T, SigmoidValue, SigmoidSlope>;

template <template <typename> class L>
void Add(const LayerInfo& info) {
  if (LayerRegistry::Instance().Find(info.type) != nullptr) return;
  RegisterLayer<L>{info};
  StandIns().insert(info.type);
}

}  // namespace

void AddStandIns() {
  Add<Hdf5DataStandIn>(
      {.type = "HDF5Data", .bottoms = {0, 0}, .tops = {1}, .summary = "", .is_data = true});
  Add<TanHStandIn>({.type = "TanH", .bottoms = {1, 1}, .tops = {1, 1}, .summary = ""});
  Add<SigmoidStandIn>({.type = "Sigmoid", .bottoms = {1, 1}, .tops = {1, 1}, .summary = ""});
}

bool IsStandIn(const std::string& type) { return StandIns().contains(type); }

}  // namespace carafe::golden
