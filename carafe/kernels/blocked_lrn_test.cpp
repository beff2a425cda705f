#include "carafe/kernels/blocked_lrn.h"

#include <gtest/gtest.h>

#include "carafe/kernels/lrn.h"
#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  int64_t images, channels, height, width, half;
  LrnNumbers numbers;
};
const Case kCases[] = {
    {"AlexNet", 2, 96, 9, 7, 2, {1, 0.3f, 0.75f}},
    {"WindowOfThree", 2, 16, 5, 5, 1, {2, 0.5f, 0.75f}},
    {"WindowOfSeven", 1, 24, 4, 5, 3, {1, 0.5f, 0.75f}},
    {"WindowOfNine", 1, 24, 4, 5, 4, {1, 0.5f, 0.75f}},
    {"WindowOfOne", 1, 8, 4, 5, 0, {1, 0.5f, 0.75f}},
    {"FewerChannelsThanTheWindow", 2, 3, 4, 5, 2, {1, 0.5f, 0.75f}},
    {"ChannelsThatDoNotFillTheirBlock", 3, 13, 6, 9, 2, {1, 0.5f, 0.75f}},
    {"AnotherPower", 2, 20, 6, 9, 2, {1.5f, 0.5f, 0.6f}},
    {"LargeEnoughForThreads", 3, 32, 20, 20, 2, {1, 0.3f, 0.75f}},
};

class BlockedLrnTest : public ::testing::TestWithParam<std::tuple<Case, int>> {
 protected:
  BlockedLrnTest() : c_(std::get<0>(GetParam())), stream_(CpuDevice(), std::get<1>(GetParam())) {
    const size_t n = static_cast<size_t>(g().count());
    x_ = RandomFloats(g().count(), 1, -4, 4);
    dy_ = RandomFloats(g().count(), 2);
    for (std::vector<double>* values : {&wide_x_, &scale_, &wide_y_, &sums_, &wide_dx_}) {
      values->resize(n);
    }
    wide_x_.assign(x_.begin(), x_.end());
  }
  BlockedGeometry g() const { return {c_.images, c_.channels, c_.height * c_.width}; }

  // The plain kernels, in double.
  template <typename SumWindows>
  void Reference(const SumWindows& sum_windows) {
    const int64_t n = g().count();
    const double k = c_.numbers.k, a = c_.numbers.a, beta = c_.numbers.beta;
    std::vector<double> work(wide_x_.size()), dy(dy_.begin(), dy_.end());
    for (size_t i = 0; i < work.size(); ++i) work[i] = wide_x_[i] * wide_x_[i];
    sum_windows(work.data(), scale_.data());
    LrnForward<double>(stream_, n, k, a, beta, wide_x_.data(), scale_.data(), wide_y_.data());
    LrnRatio<double>(stream_, n, wide_y_.data(), dy.data(), scale_.data(), work.data());
    sum_windows(work.data(), sums_.data());
    LrnBackward<double>(stream_, n, a, beta, wide_x_.data(), dy.data(), scale_.data(), sums_.data(),
                        wide_dx_.data());
  }
  static std::vector<float> Floats(const std::vector<double>& values) {
    return {values.begin(), values.end()};
  }

  const Case c_;
  Stream stream_;
  std::vector<float> x_, dy_;
  std::vector<double> wide_x_, scale_, wide_y_, sums_, wide_dx_;
};

TEST_P(BlockedLrnTest, AcrossChannelsIsThePlainKernelsResult) {
  Reference([&](const double* from, double* to) {
    WindowSum<double>(stream_, c_.images, c_.channels, g().plane, c_.half, from, to);
  });
  const std::vector<float> x = Blocked(g(), x_), dy = Blocked(g(), dy_);
  std::vector<float> y(x.size(), 7.0f), dx(x.size(), 7.0f);
  BlockedLrnAcrossForward(stream_, g(), c_.half, c_.numbers, x.data(), y.data());
  EXPECT_LT(LargestError(Floats(wide_y_), Plain(g(), y)), 1e-6);
  BlockedLrnAcrossBackward(stream_, g(), c_.half, c_.numbers, x.data(), dy.data(), dx.data());
  EXPECT_LT(LargestError(Floats(wide_dx_), Plain(g(), dx)), 1e-6);
}

TEST_P(BlockedLrnTest, WithinChannelsIsThePlainKernelsResult) {
  std::vector<double> rows(wide_x_.size());
  Reference([&](const double* from, double* to) {
    const int64_t planes = c_.images * c_.channels;
    WindowSum<double>(stream_, planes, c_.height, c_.width, c_.half, from, rows.data());
    WindowSum<double>(stream_, planes * c_.height, c_.width, 1, c_.half, rows.data(), to);
  });
  const std::vector<float> x = Blocked(g(), x_), dy = Blocked(g(), dy_);
  std::vector<float> y(x.size(), 7.0f), dx(x.size(), 7.0f);
  BlockedLrnWithinForward(stream_, g(), c_.width, c_.half, c_.numbers, x.data(), y.data());
  EXPECT_LT(LargestError(Floats(wide_y_), Plain(g(), y)), 1e-6);
  BlockedLrnWithinBackward(stream_, g(), c_.width, c_.half, c_.numbers, x.data(), dy.data(),
                           dx.data());
  EXPECT_LT(LargestError(Floats(wide_dx_), Plain(g(), dx)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Geometries, BlockedLrnTest,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(1, 3)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "Threads";
                         });

TEST(BlockedLrn, KeepsItsAccuracyOverTheWholeRangeOfEnergies) {
  const BlockedGeometry g{1, 8, 4096};
  std::vector<float> x(static_cast<size_t>(g.padded_count()));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::pow(10.0f, -6.0f + 18.0f * static_cast<float>(i) / static_cast<float>(x.size()));
  }
  std::vector<float> y(x.size());
  Stream stream;
  BlockedLrnAcrossForward(stream, g, 0, {1e-3f, 1, 0.75f}, x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double square = static_cast<double>(x[i] * x[i]);
    const double expected =
        static_cast<double>(x[i]) * std::pow(static_cast<double>(1e-3f) + square, -0.75);
    ASSERT_NEAR(static_cast<double>(y[i]), expected, 1e-6 * expected) << x[i];
  }
}

}  // namespace
}  // namespace carafe
