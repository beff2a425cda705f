#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"

namespace carafe {
namespace {

TEST(Sigmoid, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'Sigmoid' sigmoid_param { engine: CUDNN }",
                        .function = [](double x) { return 1 / (1 + std::exp(-x)); }});
}

TEST(Sigmoid, DoesNotOverflowFarFromZero) { ExpectFiniteFarFromZero("Sigmoid"); }

}  // namespace
}  // namespace carafe
