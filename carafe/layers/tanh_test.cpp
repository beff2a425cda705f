#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/function_case.h"

namespace carafe {
namespace {

TEST(TanH, FollowsItsFormulaAndHasRightGradients) {
  ExpectFollowsFormula({.text = "type: 'TanH' tanh_param { engine: CUDNN }",
                        .function = [](double x) { return std::tanh(x); }});
}

TEST(TanH, DoesNotOverflowFarFromZero) { ExpectFiniteFarFromZero("TanH"); }

}  // namespace
}  // namespace carafe
