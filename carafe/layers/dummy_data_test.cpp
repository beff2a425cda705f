#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& param, int tops = 1) {
  std::string text = "type: \"DummyData\"";
  for (int i = 0; i < tops; ++i) text += " top: \"" + std::to_string(i) + "\"";
  return text + " dummy_data_param {" + param + "}";
}
const char* const kGaussian = "shape { dim: 6 dim: 5 } data_filler { type: 'gaussian' }";

TEST(DummyData, FillsConstantsOnceAndRandomTopsInEveryPass) {
  LayerTester<float> layer(
      Text("shape { dim: 2 dim: 2 } data_filler { value: 3 } data_filler { type: 'uniform' }", 2),
      Shapes{});
  layer.Forward();
  EXPECT_THAT(layer.top_values(0), ::testing::Each(3));
  const std::vector<float> first = layer.top_values(1);
  layer.top(0).SetData(layer.run().stream, std::vector<float>{1, 2, 3, 4});
  layer.SetPass(1).Forward();
  EXPECT_THAT(layer.top_values(0), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_NE(layer.top_values(1), first);
  EXPECT_EQ(layer.SetPass(0).Forward().top_values(1), first);
}

TEST(DummyData, IsZeroWithoutAFiller) {
  LayerTester<float> layer(Text("shape { dim: 2 }"), Shapes{});
  EXPECT_THAT(layer.Forward().top_values(), ::testing::ElementsAre(0, 0));
}

TEST(DummyData, TakesTheOldSizes) {
  LayerTester<float> layer(Text("num: 2 num: 3 channels: 4 height: 5 width: 6", 2), Shapes{});
  EXPECT_EQ(layer.top(0).shape(), (Shape{2, 4, 5, 6}));
  EXPECT_EQ(layer.top(1).shape(), (Shape{3, 4, 5, 6}));
}

// Row r of worker w is row P r + w of one worker with the global batch.
TEST(DummyData, GivesTheSameRowsHoweverManyWorkersThereAre) {
  LayerTester<float> whole(Text(kGaussian), Shapes{}, {.pass = 7});
  const std::vector<float> all = whole.Forward().top_values();
  EXPECT_NE(std::vector<float>(all.begin(), all.begin() + 5),
            std::vector<float>(all.begin() + 5, all.begin() + 10));
  for (int w = 0; w < 3; ++w) {
    LayerTester<float> part(Text("shape { dim: 2 dim: 5 } data_filler { type: 'gaussian' }"),
                            Shapes{}, {.pass = 7, .replica = {.index = w, .count = 3}});
    const std::vector<float> mine = part.Forward().top_values();
    for (size_t r = 0; r < 2; ++r) {
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(mine[5 * r + i], all[5 * (3 * r + static_cast<size_t>(w)) + i]);
      }
    }
  }
}

TEST(DummyData, RefusesNumbersOfShapesAndFillersThatDoNotFit) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text("\nshape { dim: 1 } shape { dim: 1 }", 3), Shapes{});
            }),
            "test.prototxt:2:1: error: layer \"test\" (DummyData): 2 shapes are given for 3 tops\n"
            "  fix: give one shape for all tops, or one per top");
  EXPECT_THROW(
      LayerTester<float>(Text("shape { dim: 1 } data_filler { } data_filler { }", 3), Shapes{}),
      ConfigError);
  EXPECT_THROW(LayerTester<float>(Text("shape { dim: 1 } num: 1"), Shapes{}), ConfigError);
  EXPECT_THROW(LayerTester<float>(Text("num: 1 channels: 1 height: 1"), Shapes{}), ConfigError);
}

}  // namespace
}  // namespace carafe
