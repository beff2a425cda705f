#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Log, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula(
      {.text = "type: 'Log'", .function = [](double x) { return std::log(x); }, .least = 0.2});
}

TEST(Log, FollowsItsFormulaAndHasRightGradientsWithAll) {
  ExpectFollowsFormula({.text = "type: 'Log' log_param { base: 2 shift: 0.5 scale: 3 }",
                        .function = [](double x) { return std::log2(0.5 + 3 * x); },
                        .least = 0.2});
}

TEST(Log, RefusesBaseZero) {
  EXPECT_EQ(ErrorText<ConfigError>(
                [] { LayerTester<float>("type: 'Log' log_param {\n base: 0 }", {1}); }),
            "test.prototxt:2:2: error: layer \"test\" (Log): base is 0\n"
            "  fix: use a positive base other than 1, or -1 for e");
}

}  // namespace
}  // namespace carafe
