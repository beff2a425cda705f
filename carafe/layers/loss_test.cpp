// EuclideanLoss, HingeLoss, SigmoidCrossEntropyLoss, MultinomialLogisticLoss, InfogainLoss and
// ContrastiveLoss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

TEST(EuclideanLoss, IsHalfTheMeanSquaredDistance) {
  LayerTester<double> layer("type: 'EuclideanLoss'", {{2, 2}, {2, 2}});
  layer.SetBottom({1, 2, 3, 4}, 0).SetBottom({1, 0, 0, 8}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre((4 + 9 + 16) / 4.0));
  EXPECT_THAT(layer.bottom_diff(0), ElementsAre(0, 1, 1.5, -2));
  EXPECT_THAT(layer.bottom_diff(1), ElementsAre(0, -1, -1.5, 2));
}

TEST(EuclideanLoss, HasRightGradientsForBothBottoms) {
  LayerTester<double> layer("type: 'EuclideanLoss' loss_weight: 3", {{2, 3, 2}, {2, 6}});
  EXPECT_LT(GradientError(layer), 1e-8);
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'EuclideanLoss'", {{2, 3}, {2, 2}});
      }),
      "test.prototxt: error: layer \"test\" (EuclideanLoss): the bottoms have different numbers "
      "of elements: 2 3 (6) and 2 2 (4)\n  fix: give bottoms of the same size");
}

TEST(HingeLoss, CountsMarginsThatAreTooSmall) {
  LayerTester<double> l1("type: 'HingeLoss'", {{1, 3}, {1}});
  l1.SetBottom({2, 0.5, -3}).SetBottom({1}, 1).Forward();
  EXPECT_THAT(l1.top_values(), ElementsAre(3 + 0.5 + 0));
  LayerTester<double> l2("type: 'HingeLoss' hinge_loss_param { norm: L2 }", {{1, 3}, {1}});
  l2.SetBottom({2, 0.5, -3}).SetBottom({1}, 1).Forward();
  EXPECT_THAT(l2.top_values(), ElementsAre(9.25));
}

TEST(HingeLoss, HasRightGradientsAndChecksLabels) {
  for (const char* norm : {"L1", "L2"}) {
    const std::string text =
        std::string("type: 'HingeLoss' hinge_loss_param { norm: ") + norm + " }";
    LayerTester<double> layer(text, {{4, 5}, {4}});
    layer.SetBottom({0, 4, 2, 2}, 1);
    EXPECT_LT(GradientError(layer, {.kinks = {-1, 1}}), 1e-7) << norm;
    EXPECT_THROW(layer.SetBottom({0, 5, 2, 2}, 1).Forward(), DataError);
  }
}

TEST(SigmoidCrossEntropyLoss, DividesByTheBatchSizeByDefault) {
  LayerTester<double> layer("type: 'SigmoidCrossEntropyLoss'", {{2, 3}, {2, 3}});
  layer.SetBottom({0, 0, 0, 0, 0, 0}).SetBottom({1, 0, 1, 0.5, 1, 0}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], 6 * std::log(2.0) / 2, 1e-12);
}

TEST(SigmoidCrossEntropyLoss, HasRightGradientsForEveryNormalisation) {
  const std::pair<const char*, double> modes[] = {{"", 2},
                                                  {"normalization: FULL", 6},
                                                  {"normalization: VALID", 5},
                                                  {"normalization: NONE", 1},
                                                  {"normalize: true", 5},
                                                  {"normalize: false", 2}};
  for (const auto& [mode, divisor] : modes) {
    LayerTester<double> layer(
        std::string("type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 2 ") + mode + "}",
        {{2, 3}, {2, 3}});
    layer.SetBottom({1, 0, 2, 0.3, 1, 0}, 1);
    EXPECT_LT(GradientError(layer), 1e-8) << mode;
    layer.SetBottom({0, 0, 0, 0, 0, 0}).Forward();
    EXPECT_NEAR(layer.top_values()[0], 5 * std::log(2.0) / divisor, 1e-12) << mode;
  }
}

TEST(SigmoidCrossEntropyLoss, StaysFiniteFarFromZero) {
  LayerTester<float> layer("type: 'SigmoidCrossEntropyLoss'", {{1, 4}, {1, 4}});
  layer.SetBottom({500, -500, 500, -500}).SetBottom({1, 0, 0, 1}, 1).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ElementsAre(1000));
  EXPECT_THAT(layer.bottom_diff(), ElementsAre(0, 0, 1, -1));
}

TEST(MultinomialLogisticLoss, TakesTheLogOfGivenProbabilities) {
  LayerTester<double> layer("type: 'MultinomialLogisticLoss'", {{2, 2}, {2}});
  layer.SetBottom({0.25, 0.75, 0, 1}).SetBottom({0, 0}, 1).Forward();
  EXPECT_NEAR(layer.top_values()[0], -(std::log(0.25) + std::log(1e-20)) / 2, 1e-12);
  layer.SetBottom({0.25, 0.75, 0.4, 0.6}).SetBottom({0, 1}, 1);
  EXPECT_LT(GradientError(layer), 1e-6);
  EXPECT_THROW(layer.SetBottom({0, 2}, 1).Forward(), DataError);
}

TEST(InfogainLoss, IsSoftmaxWithLossForTheIdentity) {
  LayerTester<double> infogain("type: 'InfogainLoss'", {{2, 3, 2}, {2, 2}, {3, 3}});
  infogain.SetBottom({0, 2, 1, 1}, 1)
      .SetBottom({1, 0, 0, 0, 1, 0, 0, 0, 1}, 2)
      .Forward()
      .Backward({true, false, false});
  LayerTester<double> softmax("type: 'SoftmaxWithLoss'", {{2, 3, 2}, {2, 2}});
  softmax.SetBottom({0, 2, 1, 1}, 1).Forward().Backward();
  EXPECT_NEAR(infogain.top_values()[0], softmax.top_values()[0], 1e-12);
  EXPECT_THAT(infogain.bottom_diff(),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), softmax.bottom_diff()));
}

TEST(InfogainLoss, HasRightGradients) {
  for (const char* param :
       {"", "loss_param { ignore_label: 1 }", "loss_param { normalization: FULL }",
        "infogain_loss_param { axis: -1 }"}) {
    const bool last = std::string(param).find("axis") != std::string::npos;
    LayerTester<double> layer(std::string("type: 'InfogainLoss' ") + param,
                              {last ? Shape{2, 2, 3} : Shape{2, 3, 2}, {2, 2}, {3, 3}});
    layer.SetBottom({0, 2, 1, 1}, 1).SetBottom({1, .2, .1, .3, 2, .4, 0, .5, .7}, 2);
    EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-8) << param;
  }
}

TEST(InfogainLoss, ReadsItsMatrixFromAFile) {
  BlobProto proto;
  for (const float value : {1.f, .2f, .3f, 2.f}) proto.add_data(value);
  const std::string path = ::testing::TempDir() + "/infogain.binaryproto";
  WriteFileAtomically(path, proto.SerializeAsString());
  LayerTester<double> file("type: 'InfogainLoss' infogain_loss_param { source: '" + path + "' }",
                           {{2, 2}, {2}});
  LayerTester<double> bottom("type: 'InfogainLoss'", {{2, 2}, {2}, {2, 2}});
  bottom.SetBottom({0, 1}, 1).SetBottom({1, .2, .3, 2}, 2).Forward();
  EXPECT_NEAR(file.SetBottom({0, 1}, 1).Forward().top_values()[0], bottom.top_values()[0], 1e-6);
  EXPECT_THROW(LayerTester<double>("type: 'InfogainLoss'", {{2, 2}, {2}}), ConfigError);
  EXPECT_THROW(LayerTester<double>("type: 'InfogainLoss' infogain_loss_param { source: 'nowhere' }",
                                   {{2, 2}, {2}}),
               DataError);
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<double>("type: 'InfogainLoss'", {{2, 2}, {2}, {3, 3}});
            }),
            "test.prototxt: error: layer \"test\" (InfogainLoss): the matrix has 9 elements, but 2 "
            "classes need 2 x 2\n  fix: give a row and a column per class");
}

TEST(ContrastiveLoss, DrawsPairsTogetherOrApart) {
  LayerTester<double> layer("type: 'ContrastiveLoss' contrastive_loss_param { margin: 4 }",
                            {{2, 2}, {2, 2}, {2}});
  layer.SetBottom({3, 4, 0, 3}, 0).SetBottom({0, 0, 0, 0}, 1).SetBottom({1, 0}, 2).Forward();
  EXPECT_THAT(layer.top_values(), ElementsAre((25 + 1) / 4.0));
}

TEST(ContrastiveLoss, HasRightGradientsInBothVersions) {
  for (const char* param : {"margin: 5", "margin: 9 legacy_version: true"}) {
    LayerTester<double> layer(
        std::string("type: 'ContrastiveLoss' contrastive_loss_param {") + param + "}",
        {{4, 3}, {4, 3}, {4}});
    layer.SetBottom({1, 0, 0, 1}, 2);
    // The original divides by the distance plus 1e-4.
    EXPECT_LT(GradientError(layer), 2e-4) << param;
  }
  EXPECT_THROW(LayerTester<double>("type: 'ContrastiveLoss'", {{2, 2, 2}, {2, 2, 2}, {2}}),
               ConfigError);
  EXPECT_THROW(LayerTester<double>("type: 'ContrastiveLoss'", {{2, 2}, {2, 2}, {3}}), ConfigError);
}

}  // namespace
}  // namespace carafe
