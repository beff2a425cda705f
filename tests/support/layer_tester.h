// Runs one layer by itself, as a net would: made through the registry from its text, shapes
// inferred, parameters declared and filled, memory allocated. For tests and layer benchmarks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carafe/layers/layer.h"

namespace carafe {

struct TesterOptions {
  Phase phase = TRAIN;
  uint64_t seed = 1;
  int64_t pass = 0;
  Replica replica = {};
  int threads = 1;
  int tops = 0;           // 0: as many as the layer needs at least
  bool in_place = false;  // top 0 is bottom 0
  // What bottoms and top gradients that can lie in it are in when the layer gets them.
  Format format = Format::kPlain;
};

// Bottoms start with Gaussian numbers that depend on the seed alone. Not thread-safe.
template <typename T>
class LayerTester {
 public:
  // `text` is a LayerParameter; name, bottoms and tops are made up where it names none. Errors in
  // it are reported as "test.prototxt:line:column".
  LayerTester(const std::string& text, const Shapes& bottoms, const TesterOptions& options = {});
  LayerTester(const std::string& text, const Shape& bottom, const TesterOptions& options = {})
      : LayerTester(text, Shapes{bottom}, options) {}
  LayerTester(const std::string& text, std::initializer_list<int64_t> bottom,
              const TesterOptions& options = {})
      : LayerTester(text, Shapes{Shape(bottom)}, options) {}

  LayerTester& SetBottom(const std::vector<T>& values, int index = 0);
  LayerTester& SetBottomShape(const Shape& shape, int index = 0);  // new Gaussian values, too
  LayerTester& SetParam(int index, const std::vector<T>& values);
  LayerTester& SetTopDiff(const std::vector<T>& values, int index = 0);
  LayerTester& SetPass(int64_t pass);

  LayerTester& Forward();
  // Zeroes the parameters' gradients first. The gradient of a loss is its loss weight; other tops
  // need SetTopDiff. Without `propagate_down` every bottom that allows it gets a gradient.
  LayerTester& Backward();
  LayerTester& Backward(const std::vector<bool>& propagate_down);
  LayerTester& BackwardAgain();  // keeps the parameters' gradients, so that they accumulate

  Layer<T>& layer() { return *layer_; }
  RunContext& run() { return run_; }
  const LayerInfo& info() const { return info_; }
  int num_bottoms() const { return static_cast<int>(bottoms_.size()); }
  int num_tops() const { return static_cast<int>(tops_.size()); }
  int num_params() const { return static_cast<int>(layer_->blobs().size()); }
  Blob<T>& bottom(int index = 0) { return *bottoms_[static_cast<size_t>(index)]; }
  Blob<T>& top(int index = 0) { return *tops_[static_cast<size_t>(index)]; }
  Blob<T>& param(int index) { return layer_->blob(index); }

  const std::vector<T>& bottom_values(int index = 0) const {
    return values_[static_cast<size_t>(index)];
  }
  std::vector<T> top_values(int index = 0) { return top(index).DataToHost(stream_); }
  std::vector<T> bottom_diff(int index = 0) { return bottom(index).DiffToHost(stream_); }
  std::vector<T> param_values(int index) { return param(index).DataToHost(stream_); }
  std::vector<T> param_diff(int index) { return param(index).DiffToHost(stream_); }

 private:
  void FillBottom(size_t index);

  const TesterOptions options_;
  Stream stream_;
  RunContext run_;
  LayerInfo info_;
  std::unique_ptr<Layer<T>> layer_;
  std::vector<std::unique_ptr<Blob<T>>> owned_;
  std::vector<Blob<T>*> bottoms_, tops_;
  std::vector<std::vector<T>> values_;    // of the bottoms; written to them before every Forward
  std::vector<std::vector<T>> top_diff_;  // likewise before every Backward; empty: not set
};

struct GradientOptions {
  double step = 1e-4;
  std::vector<int> bottoms;      // which to check; empty: all that allow a gradient
  std::vector<double> kinks;     // bottom values near these are moved away from them
  bool random_params = true;     // fill the parameters with Gaussian numbers first
  std::vector<int> skip_params;  // parameters that are not learned
  std::vector<int> tops;         // which tops count in the objective; empty: all
};

// The largest error |a - n| / max(1, |a|, |n|) of the analytic gradients a against central
// differences n of the objective (the top elements added with fixed random weights; for a loss its
// weighted value), over every element of the bottoms and parameters.
double GradientError(LayerTester<double>& tester, const GradientOptions& options = {});

}  // namespace carafe
