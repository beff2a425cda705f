#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::string& param) { return "type: \"SoftmaxWithLoss\" " + param; }

struct Case {
  const char* name;
  const char* param;
  double divisor;  // of the sum over the items
};
// Scores (2, 3, 2): 4 items; the labels hold one 255.
const Case kCases[] = {
    {"DefaultIsValid", "loss_param { ignore_label: 255 }", 3},
    {"Full", "loss_param { ignore_label: 255 normalization: FULL }", 4},
    {"Valid", "loss_param { ignore_label: 255 normalization: VALID }", 3},
    {"BatchSize", "loss_param { ignore_label: 255 normalization: BATCH_SIZE }", 2},
    {"None", "loss_param { ignore_label: 255 normalization: NONE }", 1},
    {"OldNormalizeTrue", "loss_param { ignore_label: 255 normalize: true }", 3},
    {"OldNormalizeFalse", "loss_param { ignore_label: 255 normalize: false }", 2},
    {"NewFieldWins", "loss_param { ignore_label: 255 normalize: false normalization: FULL }", 4},
    {"WithLossWeight", "loss_weight: 2.5 loss_param { ignore_label: 255 }", 3},
    {"Smoothed", "loss_param { ignore_label: 255 label_smoothing: 0.25 }", 3},
    {"SmoothedFull", "loss_param { ignore_label: 255 label_smoothing: 0.5 normalization: FULL }",
     4},
};

class SoftmaxWithLossTest : public ::testing::TestWithParam<Case> {};
TEST_P(SoftmaxWithLossTest, DividesByItsNormaliserAndHasRightGradients) {
  LayerTester<double> layer(Text(GetParam().param), {{2, 3, 2}, {2, 2}});
  layer.SetBottom({0, 2, 255, 1}, 1);
  layer.SetBottom(std::vector<double>(12, 0)).Forward();
  EXPECT_NEAR(layer.top_values()[0], 3 * std::log(3.0) / GetParam().divisor, 1e-12);
  LayerTester<double> random(Text(GetParam().param), {{2, 3, 2}, {2, 2}});
  random.SetBottom({0, 2, 255, 1}, 1);
  EXPECT_LT(GradientError(random), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, SoftmaxWithLossTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(SoftmaxWithLoss, SpreadsAPartOfTheTargetOverAllClasses) {
  LayerTester<double> layer(Text("loss_param { label_smoothing: 0.4 }"), {{1, 4}, {1}});
  layer.SetBottom({0, 0, std::log(3.0), std::log(5.0)}).SetBottom({2}, 1).Forward().Backward();
  // probabilities 0.1, 0.1, 0.3, 0.5; target 0.1, 0.1, 0.7, 0.1
  EXPECT_NEAR(layer.top_values()[0],
              -(0.2 * std::log(0.1) + 0.7 * std::log(0.3) + 0.1 * std::log(0.5)), 1e-7);
  EXPECT_THAT(layer.bottom_diff(),
              ::testing::Pointwise(::testing::DoubleNear(1e-7), {0.0, 0.0, -0.4, 0.4}));
}

TEST(SoftmaxWithLoss, RefusesASmoothingThatLeavesNothingToTheLabel) {
  for (const char* value : {"1", "-0.1"}) {
    EXPECT_EQ(ErrorText<ConfigError>([&] {
                LayerTester<float>(
                    Text(std::string("loss_param {\nlabel_smoothing: ") + value + "}"),
                    {{1, 4}, {1}});
              }),
              std::string("test.prototxt:2:1: error: layer \"test\" (SoftmaxWithLoss): "
                          "label_smoothing is ") +
                  value + "\n  fix: use a number from 0 to below 1, e.g. 0.1");
  }
}

TEST(SoftmaxWithLoss, TakesTheClassesFromItsAxis) {
  LayerTester<double> layer(Text("softmax_param { axis: -1 }"), {{2, 2, 3}, {2, 2}});
  layer.SetBottom({0, 1, 2, 2}, 1);
  EXPECT_LT(GradientError(layer), 1e-8);
}

TEST(SoftmaxWithLoss, GivesTheProbabilitiesAsSecondTop) {
  LayerTester<float> layer(Text(""), {{1, 2}, {1}}, {.tops = 2});
  layer.SetBottom({0, std::log(3.f)}).SetBottom({1}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(1),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), {0.25f, 0.75f}));
  EXPECT_THAT(layer.bottom_diff(),
              ::testing::Pointwise(::testing::FloatNear(1e-6f), {0.25f, -0.25f}));
}

TEST(SoftmaxWithLoss, LimitsTheLossOfAHopelessItem) {
  LayerTester<float> layer(Text(""), {{1, 2}, {1}});
  layer.SetBottom({1000, -1000}).SetBottom({1}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], 87.3365, 1e-3);
}

TEST(SoftmaxWithLoss, GivesZeroWhereEverythingIsIgnored) {
  LayerTester<float> layer(Text("loss_param { ignore_label: 1 }"), {{2, 2}, {2}});
  layer.SetBottom({1, 1}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(0));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 0, 0));
}

TEST(SoftmaxWithLoss, NamesALabelThatIsNoClass) {
  LayerTester<float> layer("name: \"loss\" type: \"SoftmaxWithLoss\"", {{3, 10}, {3}});
  for (const float bad : {12.f, -1.f, 10.f}) {
    const std::string error = ErrorText<DataError>([&] {
      layer.SetBottom({0, 9, bad}, 1).Forward();
    });
    EXPECT_EQ(
        error,
        "layer \"loss\" (SoftmaxWithLoss): record 2: error: label " +
            std::to_string(static_cast<int>(bad)) +
            " is not one of the 10 classes 0 to 9\n  fix: check the labels of the data, or the "
            "num_output of the layer that makes the scores");
  }
  EXPECT_THROW(layer.SetBottom({0, NAN, 1}, 1).Forward(), DataError);
}

TEST(SoftmaxWithLoss, RefusesBottomsThatDoNotFit) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text(""), {{2, 3}, {2, 2}});
            }),
            "test.prototxt: error: layer \"test\" (SoftmaxWithLoss): there are 4 labels for 2 "
            "predictions (scores 2 3 (6), labels 2 2 (4))\n"
            "  fix: give one label per prediction; the classes are along axis 1");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text(""), {{2, 3}, {3}});
            }),
            "test.prototxt: error: layer \"test\" (SoftmaxWithLoss): the bottoms have different "
            "numbers of rows: 2 3 (6) and 3 (3)\n  fix: give both the same batch size");
}

// The floor under the logarithm must not hide that training has diverged.
TEST(SoftmaxWithLoss, IsNaNWhereTheScoresAre) {
  LayerTester<float> layer(Text(""), {{2, 2}, {2}});
  layer.SetBottom({1, 2, NAN, 1}, 0).SetBottom({1, 0}, 1).Forward();
  EXPECT_TRUE(std::isnan(layer.top_values()[0]));
}

TEST(SoftmaxWithLoss, HasNoGradientForLabels) {
  LayerTester<float> layer(Text(""), {{1, 2}, {1}});
  EXPECT_FALSE(layer.layer().AllowForceBackward(1));
  EXPECT_TRUE(layer.layer().AllowForceBackward(0));
  layer.SetBottom({1}, 1).Forward();
  EXPECT_THROW(layer.Backward({true, true}), ConfigError);
}

// SegNet: items count by the weight of their label, in the loss and in its gradient.
TEST(SoftmaxWithLoss, WeighsItemsByTheirLabel) {
  const std::string weighted =
      "type: 'SoftmaxWithLoss' loss_param { weight_by_label_freqs: true class_weighting: 2 "
      "class_weighting: 0.5 class_weighting: 3 }";
  LayerTester<double> layer(weighted, Shapes{{2, 3}, {2}});
  layer.SetBottom({1, 2, 3, 0, 0, 0}).SetBottom({1, 2}, 1).Forward();
  const double first = -(2 - std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)));
  EXPECT_NEAR(layer.top_values()[0], (0.5 * first + 3 * std::log(3.0)) / 2, 1e-6);
  EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-6);
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                LayerTester<double>(weighted, Shapes{{2, 4}, {2}});
              }),
              ::testing::HasSubstr("class_weighting is given 3 times for 4 classes"));
}

}  // namespace
}  // namespace carafe
