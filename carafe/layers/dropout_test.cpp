#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

constexpr const char* kText = "type: \"Dropout\" dropout_param { dropout_ratio: 0.25 }";

TEST(Dropout, ZeroesItsRatioAndScalesTheRest) {
  LayerTester<float> layer(kText, {10, 2003});
  layer.SetBottom(std::vector<float>(20030, 3)).SetTopDiff(std::vector<float>(20030, 6));
  layer.Forward().Backward();
  const std::vector<float> y = layer.top_values(), dx = layer.bottom_diff();
  int64_t kept = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_TRUE(y[i] == 0 || y[i] == 4);
    ASSERT_EQ(dx[i], 2 * y[i]) << "the backward pass must use the same mask";
    kept += y[i] != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 20030, 0.75, 0.01);
}

TEST(Dropout, CopiesInTest) {
  LayerTester<float> layer(kText, {2, 2}, {.phase = TEST});
  layer.SetBottom({1, 2, 3, 4}).SetTopDiff({5, 6, 7, 8}).Forward().Backward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(5, 6, 7, 8));
}

TEST(Dropout, DrawsAnewInEachPassAndForEachSeedAndLayer) {
  const std::vector<float> ones(4000, 1);
  LayerTester<float> layer(kText, {4, 1000});
  const std::vector<float> first = layer.SetBottom(ones).Forward().top_values();
  EXPECT_EQ(layer.Forward().top_values(), first) << "the same pass draws the same";
  EXPECT_NE(layer.SetPass(1).Forward().top_values(), first);
  LayerTester<float> seeded(kText, {4, 1000}, {.seed = 2});
  EXPECT_NE(seeded.SetBottom(ones).Forward().top_values(), first);
  LayerTester<float> named(std::string("name: \"other\" ") + kText, {4, 1000});
  EXPECT_NE(named.SetBottom(ones).Forward().top_values(), first);
}

// One worker with 6 rows, or three with 2: row r of worker w is row 3 r + w of the whole.
TEST(Dropout, DropsTheSameHoweverTheBatchIsDealtOut) {
  constexpr size_t kWidth = 7;
  LayerTester<float> whole(kText, {6, kWidth});
  const std::vector<float> y =
      whole.SetBottom(std::vector<float>(6 * kWidth, 1)).Forward().top_values();
  for (int w = 0; w < 3; ++w) {
    LayerTester<float> part(kText, {2, kWidth}, {.replica = {.index = w, .count = 3}});
    const std::vector<float> mine =
        part.SetBottom(std::vector<float>(2 * kWidth, 1)).Forward().top_values();
    for (size_t r = 0; r < 2; ++r) {
      for (size_t i = 0; i < kWidth; ++i) {
        EXPECT_EQ(mine[r * kWidth + i], y[(3 * r + static_cast<size_t>(w)) * kWidth + i]);
      }
    }
  }
}

TEST(Dropout, HasRightGradientsAlsoInPlace) {
  for (const bool in_place : {false, true}) {
    LayerTester<double> layer(kText, {2, 3, 4}, {.in_place = in_place});
    EXPECT_LT(GradientError(layer), 1e-9);
  }
}

TEST(Dropout, RefusesToDropEverything) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: \"Dropout\" dropout_param {\n dropout_ratio: 1 }", {1});
            }),
            "test.prototxt:2:2: error: layer \"test\" (Dropout): dropout_ratio must be at least 0 "
            "and below 1\n  fix: give the share of elements to drop, e.g. dropout_ratio: 0.5");
}

// Fast R-CNN's scale_train: false moves the scale to TEST.
TEST(Dropout, ScalesInTestWhereItDoesNotInTrain) {
  const std::string text =
      "type: 'Dropout' dropout_param { dropout_ratio: 0.25 scale_train: false }";
  LayerTester<double> train(text, {4, 50});
  train.Forward();
  int kept = 0;
  for (size_t i = 0; i < 200; ++i) {
    const double y = train.top_values()[i];
    EXPECT_TRUE(y == 0 || y == train.bottom_values()[i]);
    kept += y != 0;
  }
  EXPECT_GT(kept, 100);
  EXPECT_LT(kept, 200);
  LayerTester<double> test(text, {1, 2}, {.phase = TEST});
  test.SetBottom({4, -8}).Forward();
  EXPECT_EQ(test.top_values(), (std::vector<double>{3, -6}));
  EXPECT_LT(GradientError(test), 1e-9);
}

// Bayesian SegNet draws in TEST, too.
TEST(Dropout, SamplesInTestWhereAskedTo) {
  const std::string text = "type: 'Dropout' dropout_param { sample_weights_test: true }";
  LayerTester<double> train(text, {4, 50}), test(text, {4, 50}, {.phase = TEST});
  EXPECT_EQ(train.Forward().top_values(), test.Forward().top_values());
  EXPECT_NE(test.top_values(), test.bottom_values());
}

}  // namespace
}  // namespace carafe
