#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(Tile, RepeatsAlongItsAxis) {
  LayerTester<float> layer("type: 'Tile' tile_param { tiles: 2 }", {2, 2});
  EXPECT_THAT(layer.SetBottom({1, 2, 3, 4}).Forward().top_values(),
              ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
  for (const char* param : {"tiles: 3", "tiles: 2 axis: 0", "tiles: 2 axis: -1", "tiles: 1"}) {
    LayerTester<double> checked(std::string("type: 'Tile' tile_param {") + param + "}", {2, 3, 2});
    EXPECT_LT(GradientError(checked), 1e-8) << param;
  }
  EXPECT_EQ(ErrorText<ConfigError>([] { LayerTester<float>("type: 'Tile'", {2}); }),
            "test.prototxt: error: layer \"test\" (Tile): tiles is missing or not positive\n"
            "  fix: give the number of copies, e.g. tiles: 2");
}

}  // namespace
}  // namespace carafe
