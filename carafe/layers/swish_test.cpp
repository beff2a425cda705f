#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"

namespace carafe {
namespace {

TEST(Swish, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula(
      {.text = "type: 'Swish'", .function = [](double x) { return x / (1 + std::exp(-x)); }});
}

TEST(Swish, FollowsItsFormulaAndHasRightGradientsWithBeta) {
  ExpectFollowsFormula({.text = "type: 'Swish' swish_param { beta: 1.5 }",
                        .function = [](double x) { return x / (1 + std::exp(-1.5 * x)); }});
}

TEST(Swish, DoesNotOverflowFarFromZero) { ExpectFiniteFarFromZero("Swish"); }

}  // namespace
}  // namespace carafe
