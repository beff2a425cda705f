#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/layers/boxes.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(Overlap, IsIntersectionOverUnion) {
  EXPECT_FLOAT_EQ(Overlap({0, 0, 2, 2}, {1, 0, 3, 2}), 1.0F / 3);
  EXPECT_FLOAT_EQ(Overlap({0, 0, 1, 1}, {1, 0, 2, 1}), 0);
  EXPECT_FLOAT_EQ(Overlap({0, 0, 1, 1}, {1, 0, 2, 1}, BoxUnit::kPixel), 1.0F / 3);
}

TEST(Suppress, KeepsTheBestOfBoxesThatOverlap) {
  const std::vector<Corners> boxes = {{0, 0, 2, 2}, {0, 0, 2, 1.9F}, {5, 5, 6, 6}, {8, 8, 9, 9}};
  EXPECT_THAT(
      Suppress(boxes, {0.5F, 0.9F, 0.6F, 0.1F}, {.score_above = 0.1F, .most_overlap = 0.5F}),
      ElementsAre(1, 2));
  EXPECT_THAT(Suppress(boxes, {1, 1, 1, 1}, {.most_overlap = 1}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Suppress(boxes, {4, 3, 2, 1}, {.most_overlap = 0.5F, .candidates = 3}),
              ElementsAre(0, 2));
  // 0.95 at first, 0.57 after the first box: the second goes.
  EXPECT_THAT(Suppress(boxes, {4, 3, 2, 1}, {.most_overlap = 0.96F, .eta = 0.6F}),
              ElementsAre(0, 2, 3));
}

std::string Text(const std::string& settings) {
  return "type: 'DetectionOutput' detection_output_param { " + settings + " }";
}

// Three priors; 2 classes and the background.
const std::vector<float> kPriors = {0.1F, 0.1F, 0.3F, 0.3F, 0.1F, 0.1F, 0.3F, 0.3F,
                                    0.5F, 0.5F, 0.9F, 0.9F, 0.1F, 0.1F, 0.2F, 0.2F,
                                    0.1F, 0.1F, 0.2F, 0.2F, 0.1F, 0.1F, 0.2F, 0.2F};
const std::vector<float> kScores = {0.1F, 0.8F, 0.1F, 0.2F, 0.7F, 0.1F, 0.1F, 0.3F, 0.6F};

TEST(DetectionOutput, DecodesSuppressesAndKeepsTheBest) {
  const std::string settings =
      "num_classes: 3 code_type: CENTER_SIZE confidence_threshold: 0.25 "
      "nms_param { nms_threshold: 0.45 top_k: 100 } ";
  LayerTester<float> layer(Text(settings + "keep_top_k: 10"), Shapes{{1, 12}, {1, 9}, {1, 2, 12}},
                           {.phase = TEST});
  std::vector<float> offsets(12, 0);
  offsets[8] = 1;                    // the third box moves by 0.1 of its width
  offsets[10] = 5 * std::log(2.0F);  // and becomes twice as wide
  layer.SetBottom(offsets).SetBottom(kScores, 1).SetBottom(kPriors, 2).Forward();
  ASSERT_EQ(layer.top().shape(), (Shape{1, 1, 3, 7}));
  EXPECT_THAT(
      layer.top_values(),
      Pointwise(FloatNear(1e-5F), std::vector<float>{0, 1, 0.8F, 0.1F,  0.1F, 0.3F,  0.3F,  //
                                                     0, 1, 0.3F, 0.34F, 0.5F, 1.14F, 0.9F,  //
                                                     0, 2, 0.6F, 0.34F, 0.5F, 1.14F, 0.9F}));
  LayerTester<float> two(Text(settings + "keep_top_k: 2"), Shapes{{1, 12}, {1, 9}, {1, 2, 12}},
                         {.phase = TEST});
  two.SetBottom(offsets).SetBottom(kScores, 1).SetBottom(kPriors, 2).Forward();
  ASSERT_EQ(two.top().shape(), (Shape{1, 1, 2, 7}));
  EXPECT_FLOAT_EQ(two.top_values()[9], 0.6F);
}

TEST(DetectionOutput, WithoutBoxesGivesARowPerImage) {
  LayerTester<float> layer(Text("num_classes: 3 confidence_threshold: 2"),
                           Shapes{{2, 12}, {2, 9}, {1, 2, 12}}, {.phase = TEST});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{1, 1, 2, 7}));
  EXPECT_THAT(layer.top_values(),
              ElementsAre(0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1));
}

TEST(DetectionOutput, DecodesCorners) {
  for (const bool sized : {false, true}) {
    LayerTester<float> layer(
        Text(std::string("num_classes: 2 code_type: ") + (sized ? "CORNER_SIZE" : "CORNER")),
        Shapes{{1, 4}, {1, 2}, {1, 2, 4}}, {.phase = TEST});
    layer.SetBottom({1, 2, 3, 4}).SetBottom({0.1F, 0.9F}, 1);
    layer.SetBottom({0.2F, 0.2F, 0.6F, 0.6F, 0.1F, 0.1F, 0.2F, 0.2F}, 2).Forward();
    const float by = sized ? 0.4F : 1;
    EXPECT_THAT(layer.top_values(),
                Pointwise(FloatNear(1e-5F),
                          std::vector<float>{0, 1, 0.9F, 0.2F + 0.1F * by, 0.2F + 0.2F * by,
                                             0.6F + 0.6F * by, 0.6F + 0.8F * by}));
  }
}

// Each class has boxes of its own, and priors in pixels include their last column.
TEST(DetectionOutput, DecodesTheBoxesOfFasterRcnn) {
  LayerTester<float> layer(
      Text("num_classes: 2 share_location: false code_type: CENTER_SIZE normalized_bbox: false "
           "variance_encoded_in_target: true"),
      Shapes{{1, 8}, {1, 2}, {1, 1, 4}}, {.phase = TEST});
  layer.SetBottom({9, 9, 9, 9, 0.5F, 0, 0, 0}).SetBottom({0.1F, 0.9F}, 1);
  layer.SetBottom({10, 20, 29, 39}, 2).Forward();
  EXPECT_THAT(layer.top_values(),
              Pointwise(FloatNear(1e-4F), std::vector<float>{0, 1, 0.9F, 20, 20, 40, 40}));
}

TEST(DetectionOutput, RefusesBottomsOfOtherFeatures) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(Text("num_classes: 3"), Shapes{{1, 12}, {1, 8}, {1, 2, 12}});
              }),
              HasSubstr("the scores are 1 8 (8), but 3 priors and 1 images need 1 x 9"));
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(Text(""), Shapes{{1, 12}, {1, 9}, {1, 2, 12}});
              }),
              HasSubstr("num_classes is 0 or missing"));
}

}  // namespace
}  // namespace carafe
