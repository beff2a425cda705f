#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(HingeLoss, CountsMarginsThatAreTooSmall) {
  LayerTester<double> l1("type: 'HingeLoss'", {{1, 3}, {1}});
  l1.SetBottom({2, 0.5, -3}).SetBottom({1}, 1).Forward();
  EXPECT_THAT(l1.top_values(), ElementsAre(3 + 0.5 + 0));
  LayerTester<double> l2("type: 'HingeLoss' hinge_loss_param { norm: L2 }", {{1, 3}, {1}});
  l2.SetBottom({2, 0.5, -3}).SetBottom({1}, 1).Forward();
  EXPECT_THAT(l2.top_values(), ElementsAre(9.25));
}

TEST(HingeLoss, HasRightGradientsAndChecksLabels) {
  for (const char* norm : {"L1", "L2"}) {
    const std::string text =
        std::string("type: 'HingeLoss' hinge_loss_param { norm: ") + norm + " }";
    LayerTester<double> layer(text, {{4, 5}, {4}});
    layer.SetBottom({0, 4, 2, 2}, 1);
    EXPECT_LT(GradientError(layer, {.kinks = {-1, 1}}), 1e-7) << norm;
    EXPECT_THROW(layer.SetBottom({0, 5, 2, 2}, 1).Forward(), DataError);
  }
}

}  // namespace
}  // namespace carafe
