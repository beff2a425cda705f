// BatchNorm and MVN.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(BatchNorm, NormalisesEachChannelOfTheBatchAndKeepsRunningSums) {
  const std::string text =
      "type: 'BatchNorm' batch_norm_param { eps: 0 moving_average_fraction: 0.5 }";
  LayerTester<double> layer(text, {2, 2, 1});
  layer.SetBottom({1, 10, 3, 14}).Forward();
  EXPECT_THAT(layer.top_values(), Pointwise(DoubleNear(1e-12), {-1, -1, 1, 1}));
  EXPECT_THAT(layer.param_values(0), ElementsAre(2, 12));
  EXPECT_THAT(layer.param_values(1), ElementsAre(2, 8)) << "unbiased: squares divided by m - 1";
  EXPECT_THAT(layer.param_values(2), ElementsAre(1));
  layer.Forward();
  EXPECT_THAT(layer.param_values(0), ElementsAre(3, 18));
  EXPECT_THAT(layer.param_values(2), ElementsAre(1.5));
}

TEST(BatchNorm, UsesTheRunningStatisticsInTest) {
  const std::string text = "type: 'BatchNorm' batch_norm_param { eps: 0 }";
  LayerTester<double> layer(text, {1, 2}, {.phase = TEST});
  layer.SetParam(0, {4, 6}).SetParam(1, {8, 18}).SetParam(2, {2});
  layer.SetBottom({4, 6}).SetTopDiff({2, 3}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), Pointwise(DoubleNear(1e-12), {1, 1}));
  EXPECT_THAT(layer.bottom_diff(), Pointwise(DoubleNear(1e-12), {1, 1}));
  EXPECT_THAT(layer.param_values(2), ElementsAre(2)) << "unchanged";
}

TEST(BatchNorm, TakesZeroStatisticsWhereNothingWasSeen) {
  LayerTester<double> layer("type: 'BatchNorm' batch_norm_param { eps: 0.25 }", {1, 1},
                            {.phase = TEST});
  EXPECT_THAT(layer.SetBottom({3}).Forward().top_values(), Pointwise(DoubleNear(1e-12), {6}));
}

TEST(BatchNorm, HasRightGradientsAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    for (const Shape& shape : {Shape{4, 3}, Shape{3, 2, 2, 2}, Shape{2, 2, 1, 2, 2}}) {
      LayerTester<double> batch("type: 'BatchNorm'", shape, {.in_place = in_place});
      EXPECT_LT(GradientError(batch, {.skip_params = {0, 1, 2}}), 1e-6);
      LayerTester<double> global("type: 'BatchNorm' batch_norm_param { use_global_stats: true }",
                                 shape, {.in_place = in_place});
      global.SetParam(1, std::vector<double>(static_cast<size_t>(shape[1]), 2)).SetParam(2, {1});
      EXPECT_LT(GradientError(global, {.skip_params = {0, 1, 2}}), 1e-8);
    }
  }
}

TEST(BatchNorm, DeclaresItsStatisticsAsNotLearned) {
  LayerTester<double> layer("type: 'BatchNorm'", {2, 3});
  for (const ParamDef& def : layer.layer().DeclareParams({{2, 3}})) EXPECT_FALSE(def.learned);
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'BatchNorm' param { lr_mult: 0 }\nparam { lr_mult: 1 }", {2, 3});
      }),
      "test.prototxt:2:9: error: layer \"test\" (BatchNorm): the running statistics of "
      "BatchNorm cannot be learned\n  fix: set lr_mult: 0, or remove param");
  EXPECT_THROW(LayerTester<float>("type: 'BatchNorm'", {3}), ConfigError);
}

const char kFused[] =
    "type: 'BatchNorm' batch_norm_param { scale_filler { value: 2 } bias_filler { value: 5 } ";

TEST(BatchNorm, ScalesAndShiftsWithFillersAsTheForksDo) {
  LayerTester<double> layer(std::string(kFused) + "eps: 0 }", {2, 2, 1});
  layer.SetBottom({1, 10, 3, 14}).Forward();
  EXPECT_THAT(layer.top_values(), Pointwise(DoubleNear(1e-12), {3, 3, 7, 7}));
  ASSERT_EQ(layer.num_params(), 5) << "mean, variance, factor, scale, bias";
  EXPECT_THAT(layer.param_values(0), ElementsAre(2, 12));
  EXPECT_THAT(layer.param_values(3), ElementsAre(2, 2));
  EXPECT_THAT(layer.param_values(4), ElementsAre(5, 5));
  layer.SetTopDiff({1, 10, 2, 30}).Backward();
  EXPECT_THAT(layer.param_diff(3), Pointwise(DoubleNear(1e-12), {1, 20}));
  EXPECT_THAT(layer.param_diff(4), ElementsAre(3, 40));
  layer.BackwardAgain();
  EXPECT_THAT(layer.param_diff(4), ElementsAre(6, 80));
}

TEST(BatchNorm, StartsAtOneAndZeroWhereAFillerIsMissing) {
  for (const char* param : {"scale_bias: true", "bias_filler { }"}) {
    LayerTester<double> layer(fmt::format("type: 'BatchNorm' batch_norm_param {{ {} }}", param),
                              {2, 3});
    ASSERT_EQ(layer.num_params(), 5);
    EXPECT_THAT(layer.param_values(3), ElementsAre(1, 1, 1));
    EXPECT_THAT(layer.param_values(4), ElementsAre(0, 0, 0));
  }
  LayerTester<double> scale("type: 'BatchNorm' batch_norm_param { scale_filler { value: 3 } }",
                            {2, 1});
  EXPECT_THAT(scale.param_values(3), ElementsAre(3));
  EXPECT_THAT(scale.param_values(4), ElementsAre(0));
}

TEST(BatchNorm, EqualsBatchNormAndScaleOneAfterTheOther) {
  for (const Phase phase : {TRAIN, TEST}) {
    LayerTester<double> fused(std::string(kFused) + "}", {3, 2, 2, 2}, {.phase = phase});
    LayerTester<double> plain("type: 'BatchNorm'", {3, 2, 2, 2}, {.phase = phase});
    for (LayerTester<double>* layer : {&fused, &plain}) {
      layer->SetParam(0, {1, 2}).SetParam(1, {3, 4}).SetParam(2, {2});
    }
    fused.SetParam(3, {2, -3}).SetParam(4, {1, 7});
    plain.SetBottom(fused.bottom_values()).Forward();
    LayerTester<double> scale("type: 'Scale' scale_param { bias_term: true }", {3, 2, 2, 2});
    scale.SetBottom(plain.top_values()).SetParam(0, {2, -3}).SetParam(1, {1, 7});
    EXPECT_THAT(fused.Forward().top_values(),
                Pointwise(DoubleNear(1e-12), scale.Forward().top_values()));
  }
}

TEST(BatchNorm, HasRightGradientsWithScaleAndBiasAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    for (const Shape& shape : {Shape{4, 3}, Shape{3, 2, 2, 2}, Shape{2, 2, 1, 2, 2}}) {
      LayerTester<double> batch(std::string(kFused) + "}", shape, {.in_place = in_place});
      EXPECT_LT(GradientError(batch, {.skip_params = {0, 1, 2}}), 1e-6);
      LayerTester<double> global(std::string(kFused) + "use_global_stats: true }", shape,
                                 {.in_place = in_place});
      global.SetParam(1, std::vector<double>(static_cast<size_t>(shape[1]), 2)).SetParam(2, {1});
      EXPECT_LT(GradientError(global, {.skip_params = {0, 1, 2}}), 1e-8);
    }
  }
}

TEST(BatchNorm, LearnsScaleAndBiasButNotTheStatistics) {
  LayerTester<double> layer(std::string(kFused) + "}", {2, 3});
  const std::vector<ParamDef> defs = layer.layer().DeclareParams({{2, 3}});
  std::vector<bool> learned;
  for (const ParamDef& def : defs) learned.push_back(def.learned);
  EXPECT_THAT(learned, ElementsAre(false, false, false, true, true));
  const std::string zeros = " param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }";
  LayerTester<double>(std::string(kFused) + "}" + zeros + " param { lr_mult: 2 }", {2, 3});
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              LayerTester<float>(std::string(kFused) + "}\nparam { lr_mult: 1 }", {2, 3});
            }),
            "test.prototxt:2:9: error: layer \"test\" (BatchNorm): the running statistics of "
            "BatchNorm cannot be learned\n  fix: set lr_mult: 0, or remove param");
}

}  // namespace
}  // namespace carafe
