#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"

namespace carafe {
namespace {

TEST(Elu, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'ELU'",
                        .function = [](double x) { return x > 0 ? x : std::expm1(x); },
                        .kinks = {0}});
}

TEST(Elu, FollowsItsFormulaAndHasRightGradientsWithAlpha) {
  ExpectFollowsFormula({.text = "type: 'ELU' elu_param { alpha: 0.5 }",
                        .function = [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); },
                        .kinks = {0}});
}

TEST(Elu, FollowsItsFormulaAndHasRightGradientsWithNegativeAlpha) {
  ExpectFollowsFormula({.text = "type: 'ELU' elu_param { alpha: -0.5 }",
                        .function = [](double x) { return x > 0 ? x : -0.5 * std::expm1(x); },
                        .kinks = {0}});
}

TEST(Elu, DoesNotOverflowFarFromZero) { ExpectFiniteFarFromZero("ELU"); }

}  // namespace
}  // namespace carafe
