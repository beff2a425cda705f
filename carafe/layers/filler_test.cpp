#include "carafe/layers/filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "carafe/proto/text.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

FillerParameter Filler(const std::string& text) {
  FillerParameter filler;
  ParseText(text, "test.prototxt", &filler);
  return filler;
}

std::vector<double> Fill(const std::string& text, const Shape& shape, uint64_t key = 1) {
  return FillerValues(Filler(text), shape, key, "layer \"ip\" blob 0");
}

struct Statistics {
  double mean = 0, deviation = 0, least = 0, most = 0;
  explicit Statistics(const std::vector<double>& values) {
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values) {
      deviation += (v - mean) * (v - mean) / static_cast<double>(values.size());
    }
    deviation = std::sqrt(deviation);
    least = *std::min_element(values.begin(), values.end());
    most = *std::max_element(values.begin(), values.end());
  }
};

TEST(Filler, ConstantIsZeroByDefault) {
  EXPECT_THAT(Fill("", {3}), ::testing::Each(0));
  EXPECT_THAT(Fill("value: 2.5", {3}), ::testing::Each(2.5));
}

TEST(Filler, UniformFillsItsRange) {
  const Statistics s(Fill("type: 'uniform' min: -1 max: 3", {100, 200}));
  EXPECT_NEAR(s.mean, 1, 0.03);
  EXPECT_NEAR(s.deviation, 4 / std::sqrt(12.0), 0.02);
  EXPECT_GE(s.least, -1);
  EXPECT_LT(s.most, 3);
}

TEST(Filler, GaussianHasItsMeanAndDeviation) {
  const Statistics s(Fill("type: 'gaussian' mean: 2 std: 0.5", {100, 200}));
  EXPECT_NEAR(s.mean, 2, 0.015);
  EXPECT_NEAR(s.deviation, 0.5, 0.01);
}

TEST(Filler, SparseGaussianKeepsSoManyInputsOfEachOutput) {
  const std::vector<double> values = Fill("type: 'gaussian' sparse: 10", {100, 200});
  const auto kept = std::count_if(values.begin(), values.end(), [](double v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept), 0.1 * 20000, 150);
}

TEST(Filler, UnitBallRowsArePositiveAndSumToOne) {
  const std::vector<double> values = Fill("type: 'positive_unitball'", {4, 5, 2});
  for (size_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_GE(values[10 * row + i], 0);
      sum += values[10 * row + i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

// Shape (20, 30, 4, 5): fan in 600, fan out 400, average 500.
TEST(Filler, XavierAndMsraFollowTheFan) {
  const Shape shape{20, 30, 4, 5};
  const std::pair<const char*, double> fans[] = {
      {"", 600}, {"variance_norm: FAN_OUT", 400}, {"variance_norm: AVERAGE", 500}};
  for (const auto& [norm, fan] : fans) {
    const Statistics xavier(Fill(std::string("type: 'xavier' ") + norm, shape));
    EXPECT_NEAR(xavier.deviation, std::sqrt(1 / fan), 0.03 * std::sqrt(1 / fan));
    EXPECT_LE(xavier.most, std::sqrt(3 / fan));
    EXPECT_GE(xavier.least, -std::sqrt(3 / fan));
    const Statistics msra(Fill(std::string("type: 'msra' ") + norm, shape));
    EXPECT_NEAR(msra.deviation, std::sqrt(2 / fan), 0.03 * std::sqrt(2 / fan));
    EXPECT_GT(msra.most, 2.5 * std::sqrt(2 / fan)) << "Gaussian, not uniform";
  }
}

TEST(Filler, BilinearIsATentOverTheKernel) {
  EXPECT_THAT(Fill("type: 'bilinear'", {1, 1, 4, 4}),
              ::testing::ElementsAre(.0625, .1875, .1875, .0625, .1875, .5625, .5625, .1875, .1875,
                                     .5625, .5625, .1875, .0625, .1875, .1875, .0625));
}

TEST(Filler, DependsOnItsKeyAlone) {
  const std::string text = "type: 'gaussian'";
  EXPECT_EQ(Fill(text, {10}, 3), Fill(text, {10}, 3));
  EXPECT_NE(Fill(text, {10}, 3), Fill(text, {10}, 4));
}

TEST(Filler, SaysWhatIsWrong) {
  const auto error = [](const std::string& text, const Shape& shape) {
    return ErrorText<ConfigError>([&] { Fill(text, shape); });
  };
  EXPECT_EQ(error("type: 'gausian'", {2}),
            "error: layer \"ip\" blob 0: unknown filler type \"gausian\"\n"
            "  fix: did you mean \"gaussian\"?");
  EXPECT_EQ(error("type: 'gaussian' std: 0", {2}),
            "error: layer \"ip\" blob 0: the gaussian filler has std 0\n"
            "  fix: give a positive std, e.g. std: 0.01");
  EXPECT_EQ(error("type: 'uniform' min: 2", {2}),
            "error: layer \"ip\" blob 0: the uniform filler goes from 2 to 1\n"
            "  fix: give a min that is not above max");
  EXPECT_EQ(error("type: 'uniform' sparse: 1", {2}),
            "error: layer \"ip\" blob 0: the uniform filler has no `sparse`\n"
            "  fix: use type: \"gaussian\", or leave sparse away");
  EXPECT_EQ(
      error("type: 'bilinear'", {1, 1, 3, 4}),
      "error: layer \"ip\" blob 0: the bilinear filler needs a 4-D blob with a square kernel, "
      "not 1 1 3 4 (12)\n  fix: use it for the weights of a 2-D Deconvolution with one "
      "kernel_size");
}

}  // namespace
}  // namespace carafe
