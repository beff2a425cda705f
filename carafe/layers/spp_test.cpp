#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(SPP, PoolsIntoAPyramidOfBins) {
  LayerTester<float> three("type: 'SPP' spp_param { pyramid_height: 3 }", {1, 3, 9, 9});
  EXPECT_EQ(three.top().shape(), (Shape{1, 63}));
  LayerTester<float> one("type: 'SPP' spp_param { pyramid_height: 1 }", {1, 2, 2, 2});
  EXPECT_EQ(one.top().shape(), (Shape{1, 2, 1, 1}));
  one.SetBottom({1, 2, 3, 4, 5, 9, 7, 8}).Forward();
  EXPECT_THAT(one.top_values(), ElementsAre(4, 9));
  LayerTester<float> two("type: 'SPP' spp_param { pyramid_height: 2 }", {1, 1, 2, 2});
  EXPECT_THAT(two.SetBottom({1, 2, 3, 4}).Forward().top_values(), ElementsAre(4, 1, 2, 3, 4));
}

TEST(SPP, HasRightGradients) {
  for (const char* param :
       {"pyramid_height: 3", "pyramid_height: 2 pool: AVE", "pyramid_height: 1"}) {
    LayerTester<double> layer(std::string("type: 'SPP' spp_param {") + param + "}", {2, 2, 6, 7});
    EXPECT_LT(GradientError(layer), 1e-8) << param;
  }
}

TEST(SPP, RefusesImagesThatAreTooSmall) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'SPP' spp_param {\n pyramid_height: 3 }", {1, 1, 2, 8});
            }),
            "test.prototxt:2:2: error: layer \"test\" (SPP): axis 2 of the bottom (2) is too small "
            "for 4 bins\n  fix: use fewer levels or larger images");
  EXPECT_THROW(LayerTester<float>("type: 'SPP' spp_param { pyramid_height: 1 }", {1, 1, 1}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
