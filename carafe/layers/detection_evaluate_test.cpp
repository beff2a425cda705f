#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::string Text(const std::string& more) {
  return "type: 'DetectionEvaluate' detection_evaluate_param { num_classes: 3 " + more + " }";
}

// Two boxes of class 1 in image 0, the second of them difficult, one of class 2 in image 1.
const std::vector<float> kGiven = {0,    1, 0, 0, 0, 0.5F, 0.5F, 0, 0, 1, 0,    0.5F,
                                   0.5F, 1, 1, 1, 1, 2,    0,    0, 0, 1, 0.5F, 0};
// The first again with a lower score, the difficult one, and one of a class that is not there.
const std::vector<float> kFound = {0, 1, 0.7F, 0,     0, 0.5F, 0.5F, 0,    1,    0.9F,
                                   0, 0, 0.5F, 0.45F, 0, 1,    0.6F, 0.5F, 0.5F, 1,
                                   1, 1, 1,    0.8F,  0, 0,    1,    0.5F};

TEST(DetectionEvaluate, CountsBoxesAndSaysWhichAreRight) {
  LayerTester<float> layer(Text("evaluate_difficult_gt: false"), Shapes{{1, 1, 4, 7}, {1, 1, 3, 8}},
                           {.phase = TEST});
  layer.SetBottom(kFound).SetBottom(kGiven, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{1, 1, 6, 5}));
  EXPECT_THAT(layer.top_values(),
              Pointwise(FloatEq(), std::vector<float>{-1, 1, 1,    -1, -1,  //
                                                      -1, 2, 1,    -1, -1,  //
                                                      0,  1, 0.9F, 1,  0,   // right
                                                      0,  1, 0.7F, 0,  1,   // found before
                                                      0,  1, 0.6F, 0,  0,   // difficult
                                                      1,  1, 0.8F, 0,  1}));
}

TEST(DetectionEvaluate, CountsDifficultBoxesWhereAsked) {
  LayerTester<float> layer(Text(""), Shapes{{1, 1, 4, 7}, {1, 1, 3, 8}}, {.phase = TEST});
  layer.SetBottom(kFound).SetBottom(kGiven, 1).Forward();
  EXPECT_EQ(layer.top_values()[2], 2);
  EXPECT_EQ(layer.top_values()[4 * 5 + 3], 1);
}

// DetectionOutput's row for an image without boxes is none.
TEST(DetectionEvaluate, LeavesOutRowsWithoutABox) {
  LayerTester<float> layer(Text(""), Shapes{{1, 1, 1, 7}, {1, 1, 3, 8}}, {.phase = TEST});
  layer.SetBottom({0, -1, -1, -1, -1, -1, -1}).SetBottom(kGiven, 1).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{1, 1, 2, 5}));
}

TEST(DetectionEvaluate, RefusesOtherBottoms) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(Text(""), Shapes{{1, 1, 4, 6}, {1, 1, 3, 8}});
              }),
              HasSubstr("boxes found have 7 numbers each"));
}

}  // namespace
}  // namespace carafe
