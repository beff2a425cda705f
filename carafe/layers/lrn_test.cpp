#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  const char* param;
  Shape bottom;
};
const Case kCases[] = {
    {"Default", "", {2, 7, 2, 3}},
    {"AcrossWithOtherNumbers", "local_size: 3 alpha: 2 beta: 0.6 k: 2", {1, 5, 2, 3}},
    {"AcrossWiderThanTheChannels", "local_size: 15", {1, 4, 2, 2}},
    {"AcrossOneChannel", "local_size: 1 engine: CUDNN", {1, 3, 2, 2}},
    {"AcrossSinglePixels", "local_size: 3", {2, 5, 1, 1}},
    {"Within", "norm_region: WITHIN_CHANNEL local_size: 3", {1, 2, 4, 5}},
    {"WithinWiderThanTheImage",
     "norm_region: WITHIN_CHANNEL local_size: 7 beta: 0.5 k: 9",
     {1, 2, 3, 2}},
};

// Straight from the formulas.
std::vector<double> Reference(const LRNParameter& p, const Shape& s, const std::vector<double>& x) {
  const auto at = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    return x[static_cast<size_t>(((n * s[1] + c) * s[2] + h) * s[3] + w)];
  };
  const int64_t half = (p.local_size() - 1) / 2;
  const double size = p.local_size();
  std::vector<double> y;
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t h = 0; h < s[2]; ++h) {
        for (int64_t w = 0; w < s[3]; ++w) {
          double scale = p.norm_region() == LRNParameter::WITHIN_CHANNEL ? 1 : p.k();
          for (int64_t i = -half; i <= half; ++i) {
            if (p.norm_region() == LRNParameter::ACROSS_CHANNELS) {
              if (c + i >= 0 && c + i < s[1]) {
                scale += p.alpha() / size * std::pow(at(n, c + i, h, w), 2);
              }
              continue;
            }
            for (int64_t j = -half; j <= half; ++j) {
              if (h + i < 0 || h + i >= s[2] || w + j < 0 || w + j >= s[3]) continue;
              scale += p.alpha() / (size * size) * std::pow(at(n, c, h + i, w + j), 2);
            }
          }
          y.push_back(at(n, c, h, w) * std::pow(scale, -static_cast<double>(p.beta())));
        }
      }
    }
  }
  return y;
}

class LrnTest : public ::testing::TestWithParam<Case> {};
TEST_P(LrnTest, FollowsItsFormulaAndHasRightGradients) {
  LayerTester<double> layer(std::string("type: \"LRN\" lrn_param {") + GetParam().param + "}",
                            GetParam().bottom);
  const std::vector<double> expected =
      Reference(layer.layer().spec().param().lrn_param(), GetParam().bottom, layer.bottom_values());
  EXPECT_THAT(layer.Forward().top_values(),
              ::testing::Pointwise(::testing::DoubleNear(1e-7), expected));
  EXPECT_LT(GradientError(layer), 1e-7);
}
INSTANTIATE_TEST_SUITE_P(Layers, LrnTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(LRN, RefusesAnEvenWindowThreeAxesAndRunningInPlace) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: \"LRN\" lrn_param {\n local_size: 4 }", {1, 1, 1, 1});
            }),
            "test.prototxt:2:2: error: layer \"test\" (LRN): local_size 4 is not odd\n"
            "  fix: the window needs a middle: use 3, 5, 7, ..");
  EXPECT_THROW(LayerTester<float>("type: \"LRN\"", {1, 1, 1}), ConfigError);
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: \"LRN\" bottom: \"a\"\ntop: \"a\"", {1, 1, 1, 1});
      }),
      "test.prototxt:2:1: error: layer \"test\" (LRN): LRN cannot run in place, but \"a\" is both "
      "bottom and top\n  fix: give the top a name of its own");
}

}  // namespace
}  // namespace carafe
