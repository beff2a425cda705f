#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Crop, CutsToTheSizeOfItsSecondBottom) {
  LayerTester<float> layer("type: 'Crop' crop_param { offset: 1 offset: 0 }",
                           {{1, 1, 3, 3}, {1, 9, 2, 2}});
  EXPECT_EQ(layer.top().shape(), (Shape{1, 1, 2, 2}));
  layer.SetBottom({1, 2, 3, 4, 5, 6, 7, 8, 9}).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(4, 5, 7, 8));
}

TEST(Crop, HasRightGradients) {
  for (const char* param : {"", "offset: 1", "axis: 1 offset: 0 offset: 1 offset: 2",
                            "axis: -1 offset: 1", "axis: 0"}) {
    LayerTester<double> layer(std::string("type: 'Crop' crop_param {") + param + "}",
                              {{2, 3, 3, 4}, {2, 2, 2, 2}});
    EXPECT_LT(GradientError(layer), 1e-9) << param;
  }
}

TEST(Crop, RefusesPartsThatAreNotThere) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'Crop' crop_param {\n offset: 2 }", {{1, 1, 3, 3}, {1, 1, 2, 2}});
      }),
      "test.prototxt:2:2: error: layer \"test\" (Crop): along axis 2 offset 2 and size 2 reach "
      "beyond the bottom's 3\n  fix: use a smaller offset or a smaller second bottom");
  EXPECT_THROW(LayerTester<float>("type: 'Crop' crop_param { offset: 0 offset: 0 offset: 0 }",
                                  {{1, 1, 3, 3}, {1, 1, 2, 2}}),
               ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Crop'", {{1, 1, 3, 3}, {1, 1, 2}}), ConfigError);
}

}  // namespace
}  // namespace carafe
