#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"

namespace carafe {
namespace {

TEST(Bnll, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula(
      {.text = "type: 'BNLL'", .function = [](double x) { return std::log1p(std::exp(x)); }});
}

TEST(Bnll, DoesNotOverflowFarFromZero) { ExpectFiniteFarFromZero("BNLL"); }

}  // namespace
}  // namespace carafe
