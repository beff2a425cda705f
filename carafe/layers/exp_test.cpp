#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/function_case.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Exp, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'Exp'", .function = [](double x) { return std::exp(x); }});
}

TEST(Exp, FollowsItsFormulaAndHasRightGradientsWithAll) {
  ExpectFollowsFormula({.text = "type: 'Exp' exp_param { base: 2 shift: 0.5 scale: -3 }",
                        .function = [](double x) { return std::pow(2, 0.5 - 3 * x); }});
}

TEST(Exp, RefusesANegativeBase) {
  EXPECT_EQ(ErrorText<ConfigError>(
                [] { LayerTester<float>("type: 'Exp' exp_param {\n base: -2 }", {1}); }),
            "test.prototxt:2:2: error: layer \"test\" (Exp): base is -2\n"
            "  fix: use a positive base, or -1 for e");
}

}  // namespace
}  // namespace carafe
