#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace carafe
