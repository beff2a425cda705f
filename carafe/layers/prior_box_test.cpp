#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

TEST(PriorBox, PutsBoxesAroundTheCentreOfEachFeature) {
  LayerTester<float> layer(
      "type: 'PriorBox' prior_box_param { min_size: 4 max_size: 9 aspect_ratio: 4 flip: true "
      "variance: [0.1, 0.1, 0.2, 0.2] }",
      Shapes{{1, 3, 1, 2}, {1, 3, 10, 20}});
  layer.Forward();
  // Squares of 4 and 6, 8 x 2 and 2 x 8 around (5, 5) and (15, 5) of an image of 20 x 10.
  ASSERT_EQ(layer.top().shape(), (Shape{1, 2, 32}));
  const std::vector<float> values = layer.top_values();
  const std::vector<float> first(values.begin(), values.begin() + 16);
  EXPECT_THAT(first, testing::Pointwise(FloatNear(1e-6F),
                                        {0.15F, 0.3F, 0.35F, 0.7F, 0.1F, 0.2F, 0.4F, 0.8F,  //
                                         0.05F, 0.4F, 0.45F, 0.6F, 0.2F, 0.1F, 0.3F, 0.9F}));
  EXPECT_NEAR(values[16], 0.65, 1e-6);  // the next feature
  EXPECT_FLOAT_EQ(values[32], 0.1F);
  EXPECT_FLOAT_EQ(values[34], 0.2F);
}

TEST(PriorBox, TakesStepSizeAndClipFromTheFile) {
  LayerTester<float> layer(
      "type: 'PriorBox' prior_box_param { min_size: 8 step: 4 offset: 0 img_size: 16 clip: true "
      "aspect_ratio: 1 }",
      Shapes{{1, 3, 1, 2}, {1, 3, 10, 20}});
  layer.Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0, 0.25F, 0.25F, 0, 0, 0.5F, 0.25F,  //
                                              0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F));
}

TEST(PriorBox, HasNoGradient) {
  LayerTester<double> layer("type: 'PriorBox' prior_box_param { min_size: 4 }",
                            Shapes{{1, 1, 1, 2}, {1, 1, 4, 4}});
  layer.Forward().SetTopDiff(std::vector<double>(16, 1)).Backward({true, true});
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0, 0));
}

TEST(PriorBox, RefusesSizesThatCannotBe) {
  const auto error = [](const std::string& settings) {
    return ErrorText<ConfigError>([&] {
      LayerTester<float>("type: 'PriorBox' prior_box_param { " + settings + " }",
                         Shapes{{1, 1, 1, 2}, {1, 1, 4, 4}});
    });
  };
  EXPECT_THAT(error(""), HasSubstr("min_size is missing"));
  EXPECT_THAT(error("min_size: 4 max_size: 3"), HasSubstr("max_size 3 is not above min_size 4"));
  EXPECT_THAT(error("min_size: 4 variance: [1, 2]"), HasSubstr("there are 2 variances"));
}

}  // namespace
}  // namespace carafe
