// Layers that pick, repeat or cut rows and parts: BatchReindex, Filter, Crop, Tile, Embed, and
// Parameter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(BatchReindex, PicksRowsAndAddsTheirGradients) {
  LayerTester<float> layer("type: 'BatchReindex'", {{3, 2}, {4}});
  EXPECT_EQ(layer.top().shape(), (Shape{4, 2}));
  layer.SetBottom({1, 2, 3, 4, 5, 6}).SetBottom({2, 0, 2, 2}, 1);
  layer.SetTopDiff({1, 2, 3, 4, 5, 6, 7, 8}).Forward().Backward({true, false});
  EXPECT_THAT(layer.top_values(), ElementsAre(5, 6, 1, 2, 5, 6, 5, 6));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(3, 4, 0, 0, 13, 16));
}

TEST(BatchReindex, HasRightGradientsForWideRows) {
  LayerTester<double> layer("type: 'BatchReindex'", {{3, 5, 30}, {4}});
  layer.SetBottom({2, 0, 2, 1}, 1);
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-8);
}

TEST(BatchReindex, ChecksItsIndices) {
  LayerTester<float> layer("name: 'r' type: 'BatchReindex'", {{3, 2}, {2}});
  EXPECT_EQ(ErrorText<DataError>([&] {
              layer.SetBottom({0, 3}, 1).Forward();
            }),
            "layer \"r\" (BatchReindex): record 1: error: index 3 is not one of the 3 rows\n"
            "  fix: give indices from 0 to the number of rows less 1");
  layer.SetBottom({0, 2}, 1).Forward();
  EXPECT_THROW(layer.Backward({true, true}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'BatchReindex'", {{3, 2}, {2, 1}}), ConfigError);
}

TEST(Filter, KeepsSelectedRows) {
  LayerTester<float> layer("type: 'Filter'", {{3, 2}, {3}, {3, 1, 1}}, {.tops = 2});
  layer.SetBottom({1, 2, 3, 4, 5, 6}, 0).SetBottom({7, 8, 9}, 1).SetBottom({-1, 0, 2}, 2).Forward();
  EXPECT_EQ(layer.top(0).shape(), (Shape{2, 2}));
  EXPECT_THAT(layer.top_values(0), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(layer.top_values(1), ElementsAre(7, 9));
  layer.SetTopDiff({1, 2, 3, 4}, 0).SetTopDiff({5, 6}, 1).Backward({true, true, false});
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(1, 2, 0, 0, 3, 4));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(5, 0, 6));
}

TEST(Filter, MayKeepNothingAndThenSomethingAgain) {
  LayerTester<float> layer("type: 'Filter'", {{2, 2}, {2}}, {.tops = 1});
  layer.SetBottom({1, 2, 3, 4}).SetBottom({0, 0}, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{0, 2}));
  layer.Backward({true, false});
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 0));
  layer.SetBottom({0, 1}, 1).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(3, 4));
}

TEST(Filter, RefusesWhatDoesNotFit) {
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{2, 2}, {2, 2}}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{3, 2}, {2, 1}}), ConfigError);
  EXPECT_THROW(LayerTester<float>("type: 'Filter'", {{2, 2}, {2, 1}}, {.tops = 2}), ConfigError);
  LayerTester<float> layer("type: 'Filter'", {{2, 2}, {2, 1}});
  EXPECT_THROW(layer.Forward().Backward({true, true}), ConfigError);
}

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

TEST(Embed, LooksUpRowsAndAddsGradientsOfRepeatedOnes) {
  LayerTester<float> layer("type: 'Embed' embed_param { num_output: 2 input_dim: 3 }", {2, 2});
  EXPECT_EQ(layer.top().shape(), (Shape{2, 2, 2}));
  layer.SetParam(0, {1, 2, 3, 4, 5, 6}).SetParam(1, {10, 20}).SetBottom({2, 0, 2, 1});
  layer.SetTopDiff({1, 1, 2, 2, 3, 3, 4, 4}).Forward().Backward({false});
  EXPECT_THAT(layer.top_values(), ElementsAre(15, 26, 11, 22, 15, 26, 13, 24));
  EXPECT_THAT(layer.param_diff(0), ElementsAre(2, 2, 4, 4, 4, 4));
  EXPECT_THAT(layer.param_diff(1), ElementsAre(10, 10));
}

TEST(Embed, HasRightGradientsAndChecksItsInputs) {
  LayerTester<double> layer(
      "name: 'e' type: 'Embed' embed_param { num_output: 4 input_dim: 3 bias_term: false }", {3});
  layer.SetBottom({1, 2, 1}).Forward();
  LayerTester<double> biased("type: 'Embed' embed_param { num_output: 4 input_dim: 3 }", {3});
  biased.SetBottom({1, 2, 1}).SetTopDiff(std::vector<double>(12, 1)).Forward();
  EXPECT_EQ(ErrorText<DataError>([&] {
              layer.SetBottom({1, 2, 3}).Forward();
            }),
            "layer \"e\" (Embed): record 2: error: input 3 is not one of the 3 rows of the table\n"
            "  fix: give inputs from 0 to input_dim less 1, or a larger input_dim");
  EXPECT_THROW(biased.Backward({true}), ConfigError);
  EXPECT_EQ(ErrorText<ConfigError>(
                [] { LayerTester<float>("type: 'Embed'\nembed_param { num_output: 1 }", {3}); }),
            "test.prototxt:2:1: error: layer \"test\" (Embed): input_dim is 0 or missing\n"
            "  fix: give the number of rows: one more than the largest input");
}

TEST(Parameter, ShowsItsBlobAndCollectsItsGradient) {
  LayerTester<float> layer("type: 'Parameter' parameter_param { shape { dim: 1 dim: 2 } }",
                           Shapes{});
  EXPECT_EQ(layer.param(0).shape(), (Shape{1, 2}));
  layer.Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0, 0));
  layer.SetParam(0, {3, 4}).SetTopDiff({1, 2}).Forward().Backward().BackwardAgain();
  EXPECT_THAT(layer.top_values(), ElementsAre(3, 4));
  EXPECT_THAT(layer.param_diff(0), ElementsAre(2, 4));
}

}  // namespace
}  // namespace carafe
