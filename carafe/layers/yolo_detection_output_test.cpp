#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

const float kTwo = std::log(2.0F), kNever = -50;

TEST(YoloDetectionOutput, DecodesAnchorsInFeatures) {
  LayerTester<float> layer(
      "type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 2 "
      "confidence_threshold: 0.2 nms_threshold: 0.5 biases: 0.5 biases: 1 }",
      {1, 7, 1, 2}, {.phase = TEST});
  // Feature 0 has no object. Feature 1: centre (1.5 / 2, 0.5), twice as wide as the anchor, an
  // object with probability 1 / 2, and of class 1 with 2 / 3.
  layer.SetBottom({0, 0, 0, 0, 0, kTwo, 0, 0, kNever, 0, 0, 0, 0, kTwo}).Forward();
  ASSERT_EQ(layer.top().shape(), (Shape{1, 1, 1, 7}));
  EXPECT_THAT(layer.top_values(),
              Pointwise(FloatNear(1e-5F), std::vector<float>{0, 2, 1.0F / 3, 0.5F, 0, 1, 1}));
}

std::string Third(const std::string& settings) {
  return "type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: 1 "
         "nms_threshold: 0.45 biases: [8, 8, 16, 32] " +
         settings + " }";
}
const std::string kScales = "mask_group_num: 2 mask: 1 mask: 0 anchors_scale: 32 anchors_scale: 16";

TEST(Yolov3DetectionOutput, DecodesAnchorsInPixelsAtEachScale) {
  LayerTester<float> layer(Third("confidence_threshold: 0.1 " + kScales),
                           Shapes{{1, 6, 1, 1}, {1, 6, 1, 2}}, {.phase = TEST});
  // An input of 32 x 32 for the first bottom: 16 x 32 around its centre. One of 32 x 16 for the
  // second: 8 x 8 around the centre of its second feature.
  layer.SetBottom({0, 0, 0, 0, 50, 50});
  layer.SetBottom({0, 0, 0, 0, 0, 0, 0, 0, kNever, 0, 50, 0}, 1).Forward();
  ASSERT_EQ(layer.top().shape(), (Shape{1, 1, 2, 7}));
  EXPECT_THAT(
      layer.top_values(),
      Pointwise(FloatNear(1e-5F), std::vector<float>{0, 1, 1, 0.25F, 0, 0.75F, 1,  //
                                                     0, 1, 0.25F, 0.625F, 0.25F, 0.875F, 0.75F}));
}

TEST(Yolov3DetectionOutput, WithoutBoxesGivesARowPerImage) {
  LayerTester<float> layer(Third("confidence_threshold: 0.5 " + kScales),
                           Shapes{{2, 6, 1, 1}, {2, 6, 1, 1}}, {.phase = TEST});
  layer.SetBottom(std::vector<float>(12, kNever)).SetBottom(std::vector<float>(12, kNever), 1);
  layer.Forward();
  EXPECT_THAT(layer.top_values(),
              ElementsAre(0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1));
}

TEST(Yolov3DetectionOutput, RefusesOtherNumbersOfAnchorsAndChannels) {
  const auto error = [](const std::string& settings, int64_t channels) {
    return ErrorText<ConfigError>([&] {
      LayerTester<float>(Third(settings), Shapes{{1, channels, 1, 1}, {1, channels, 1, 1}});
    });
  };
  EXPECT_THAT(error(kScales, 5), HasSubstr("1 anchors of 1 classes need 6 channels"));
  EXPECT_THAT(error("mask_group_num: 1 mask: 1", 6), HasSubstr("there are 2 bottoms"));
  EXPECT_THAT(error("mask_group_num: 2 mask: [0, 2] anchors_scale: [8, 8]", 6),
              HasSubstr("mask 2 names an anchor, but there are 4 biases"));
}

}  // namespace
}  // namespace carafe
