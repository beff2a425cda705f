#include "tests/support/least_squares.h"

#include <fmt/format.h>

#include "carafe/base/random.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

double Residual(const std::vector<double>& row, const std::vector<double>& w_and_c) {
  double error = w_and_c[LeastSquares::kWidth] - row[LeastSquares::kWidth];
  for (size_t i = 0; i < LeastSquares::kWidth; ++i) error += row[i] * w_and_c[i];
  return error;
}

template <typename T>
class LeastSquaresLayer final : public Layer<T> {
 public:
  explicit LeastSquaresLayer(const LayerSpec& spec)
      : Layer<T>(spec), rows_(spec.param().inner_product_param().num_output()) {}
  Shapes InferShapes(const Shapes&) const override { return {Shape{}}; }
  std::vector<ParamDef> DeclareParams(const Shapes&) const override {
    FillerParameter half, quarter;
    half.set_value(0.5f);
    quarter.set_value(-0.25f);
    return {{{LeastSquares::kWidth}, half}, {{1}, quarter}};
  }
  void Forward(RunContext& run, Blobs<T>, Blobs<T> top) override {
    double loss = 0;
    for (int64_t r = 0; r < rows_; ++r) {
      const double error = Residual(RowOf(run, r), Values(run));
      loss += error * error / (2 * static_cast<double>(rows_));
    }
    top[0]->SetData(run.stream, std::vector<T>{static_cast<T>(loss)});
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>&, Blobs<T>) override {
    std::vector<T> w = this->blob(0).DiffToHost(run.stream);
    std::vector<T> c = this->blob(1).DiffToHost(run.stream);
    const double weight = top[0]->DiffToHost(run.stream)[0] / static_cast<double>(rows_);
    for (int64_t r = 0; r < rows_; ++r) {
      const std::vector<double> row = RowOf(run, r);
      const double error = Residual(row, Values(run)) * weight;
      for (size_t i = 0; i < w.size(); ++i) w[i] += static_cast<T>(error * row[i]);
      c[0] += static_cast<T>(error);
    }
    if (this->param_propagate_down(0)) this->blob(0).SetDiff(run.stream, w);
    if (this->param_propagate_down(1)) this->blob(1).SetDiff(run.stream, c);
  }

 private:
  static std::vector<double> RowOf(const RunContext& run, int64_t r) {
    return LeastSquares::Row(run.pass.index, run.replica.Slot(r));
  }
  std::vector<double> Values(RunContext& run) {
    const std::vector<T> w = this->blob(0).DataToHost(run.stream);
    std::vector<double> values(w.begin(), w.end());
    values.push_back(this->blob(1).DataToHost(run.stream)[0]);
    return values;
  }
  const int64_t rows_;
};

const RegisterLayer<LeastSquaresLayer> kRegistered{{.type = "LeastSquaresForTests",
                                                    .bottoms = {0, 0},
                                                    .tops = {1, 1},
                                                    .summary = "A problem whose gradient is known.",
                                                    .is_loss = true,
                                                    .is_data = true}};

}  // namespace

std::vector<double> LeastSquares::Row(int64_t pass, int64_t slot) {
  const RandomKey key = MakeRandomKey(/*seed=*/5, "rows", pass);
  std::vector<double> row;
  for (int i = 0; i <= kWidth; ++i) row.push_back(2 * key.Uniform(slot, i) - 1);
  return row;
}

std::vector<double> LeastSquares::Gradient(int64_t pass, int64_t rows,
                                           const std::vector<double>& w_and_c) {
  std::vector<double> gradient(kWidth + 1, 0);
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double> row = Row(pass, r);
    const double error = Residual(row, w_and_c) / static_cast<double>(rows);
    for (size_t i = 0; i < kWidth; ++i) gradient[i] += error * row[i];
    gradient[kWidth] += error;
  }
  return gradient;
}

std::string LeastSquares::Layer(int rows, const std::string& more) {
  return fmt::format(
      "layer {{ name: \"squares\" type: \"LeastSquaresForTests\" top: \"loss\" "
      "inner_product_param {{ num_output: {} }} {} }}",
      rows, more);
}

}  // namespace carafe
