#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The loss and its gradient are those of the layer without the third top.
TEST(SoftmaxWithLossOhem, AlsoGivesTheLossOfEachItem) {
  const Shapes bottoms = {{3, 4}, {3}};
  LayerTester<double> layer("type: 'SoftmaxWithLossOHEM' loss_param { ignore_label: 9 }", bottoms);
  LayerTester<double> plain("type: 'SoftmaxWithLoss' loss_param { ignore_label: 9 }", bottoms);
  for (auto* each : {&layer, &plain}) each->SetBottom({1, 9, 3}, 1).Forward();
  EXPECT_EQ(layer.top(2).count(), 3);
  const std::vector<double> losses = layer.top_values(2);
  EXPECT_EQ(losses[1], 0);
  EXPECT_DOUBLE_EQ((losses[0] + losses[2]) / 2, layer.top_values()[0]);
  EXPECT_DOUBLE_EQ(layer.top_values()[0], plain.top_values()[0]);
  layer.Backward({true, false});
  plain.Backward({true, false});
  EXPECT_EQ(layer.bottom_diff(), plain.bottom_diff());
}

TEST(SoftmaxWithLossOhem, DividesByAFixedNumber) {
  for (const char* type : {"SoftmaxWithLoss", "SoftmaxWithLossOHEM"}) {
    const std::string text = std::string("type: '") + type + "' loss_param { normalization: ";
    LayerTester<double> sum(text + "NONE }", Shapes{{3, 4}, {3}});
    LayerTester<double> fixed(text + "PRE_FIXED pre_fixed_normalizer: 128 }", Shapes{{3, 4}, {3}});
    for (auto* each : {&sum, &fixed}) each->SetBottom({1, 0, 3}, 1).Forward();
    EXPECT_DOUBLE_EQ(fixed.top_values()[0], sum.top_values()[0] / 128);
  }
}

TEST(SmoothL1LossOhem, AlsoGivesTheLossOfEachRow) {
  LayerTester<double> layer("type: 'SmoothL1LossOHEM'", Shapes{{2, 2}, {2, 2}, {2, 2}},
                            {.tops = 2});
  layer.SetBottom({0.5, 3, 2, 0}).SetBottom({0, 0, 0, 0}, 1).SetBottom({1, 1, 1, 0}, 2).Forward();
  EXPECT_THAT(layer.top_values(1), ElementsAre(0.125 + 2.5, 1.5));
  EXPECT_THAT(layer.top_values(0), ElementsAre(2.0625));
  EXPECT_LT(GradientError(layer, {.bottoms = {0, 1}, .kinks = {1, -1}, .tops = {0}}), 1e-6);
}

TEST(BoxAnnotatorOhem, KeepsTheRegionsOfTheLargestLossOfEachImage) {
  LayerTester<float> layer(
      "type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: 1 ignore_label: -1 }",
      Shapes{{3, 5}, {3}, {3}, {3, 2}});
  layer.SetBottom({0, 1, 1, 2, 2, 0, 1, 1, 2, 2, 1, 1, 1, 2, 2});
  layer.SetBottom({0.1F, 0.3F, 0.2F}, 1).SetBottom({4, 5, 6}, 2).SetBottom({1, 1, 1, 1, 1, 1}, 3);
  layer.Forward();
  EXPECT_THAT(layer.top_values(0), ElementsAre(-1, 5, 6));
  EXPECT_THAT(layer.top_values(1), ElementsAre(0, 0, 1, 1, 1, 1));
}

TEST(BoxAnnotatorOhem, RefusesOtherNumbersOfRows) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(
                    "type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: 1 }",
                    Shapes{{3, 5}, {3}, {2}, {3, 2}});
              }),
              HasSubstr("3 regions need as many losses, labels and rows of weights"));
}

}  // namespace
}  // namespace carafe
