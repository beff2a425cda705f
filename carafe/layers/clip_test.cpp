#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/error_text.h"
#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Clip, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'Clip' clip_param { min: -0.5 max: 0.75 }",
                        .function = [](double x) { return std::min(0.75, std::max(-0.5, x)); },
                        .kinks = {-0.5, 0.75}});
}

TEST(Clip, PassesTheGradientAtItsLimits) {
  LayerTester<float> layer("type: 'Clip' clip_param { min: -1 max: 2 }", {4});
  layer.SetBottom({-2, -1, 2, 3}).SetTopDiff({1, 2, 3, 4}).Forward().Backward();
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(0, 2, 3, 0));
}

TEST(Clip, RefusesLimitsThatAreMissingOrExchanged) {
  const auto error = [](const std::string& text) {
    return ErrorText<ConfigError>([&] { LayerTester<float>(text, {1}); });
  };
  EXPECT_EQ(error("type: 'Clip'\nclip_param { min: 1 max: 0 }"),
            "test.prototxt:2:14: error: layer \"test\" (Clip): min is larger than max\n"
            "  fix: exchange them");
  EXPECT_EQ(error("type: 'Clip'"),
            "test.prototxt: error: layer \"test\" (Clip): min or max is missing\n"
            "  fix: give both, e.g. clip_param { min: -1 max: 1 }");
}

}  // namespace
}  // namespace carafe
