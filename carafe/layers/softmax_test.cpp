#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Softmax, GivesProbabilitiesAlongItsAxis) {
  LayerTester<float> layer("type: \"Softmax\"", {1, 2, 2});
  layer.SetBottom({std::log(1.f), 0, std::log(3.f), 0}).Forward();
  EXPECT_THAT(layer.top_values(),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), {0.25f, 0.5f, 0.75f, 0.5f}));
}

TEST(Softmax, DoesNotOverflow) {
  LayerTester<float> layer("type: \"Softmax\"", {1, 2});
  EXPECT_THAT(layer.SetBottom({1000, -1000}).Forward().top_values(), ::testing::ElementsAre(1, 0));
}

TEST(Softmax, HasRightGradientsOnEveryAxisAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    for (const char* axis : {"0", "1", "2", "-1"}) {
      LayerTester<double> layer(
          std::string("type: \"Softmax\" softmax_param { axis: ") + axis + "}", {2, 3, 4},
          {.in_place = in_place});
      EXPECT_LT(GradientError(layer), 1e-8) << axis;
    }
  }
}

TEST(Softmax, RefusesAnAxisThatIsNotThere) {
  EXPECT_THROW(LayerTester<float>("type: \"Softmax\" softmax_param { axis: 2 }", {2, 3}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
