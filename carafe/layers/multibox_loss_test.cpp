#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/layers/boxes.h"
#include "carafe/layers/multibox_match.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Four priors with variances of 0.1 and 0.2; the third crosses the border.
const std::vector<double> kPriors = {0,   0,   0.4, 0.4, 0.1, 0.1, 0.5, 0.5,  //
                                     0.8, 0.8, 1.2, 1.2, 0.5, 0,   0.9, 0.4,  //
                                     0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2,  //
                                     0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2};
const Shapes kShapes = {{2, 16}, {2, 12}, {1, 2, 16}, {1, 1, 3, 8}};
// Two boxes in image 0, none in image 1.
const std::vector<double> kBoxes = {0,   1,   0,   0, 0,  0.4, 0.36, 0,  0,  2,  0,  0.1,
                                    0.1, 0.4, 0.5, 1, -1, 0,   0,    -1, -1, -1, -1, 0};

std::string Text(const std::string& settings) {
  return "type: 'MultiBoxLoss' multibox_loss_param { num_classes: 3 " + settings + " }";
}

TEST(Encode, IsTheInverseOfDecode) {
  const float prior[] = {0.1F, 0.2F, 0.5F, 0.8F}, variances[] = {0.1F, 0.1F, 0.2F, 0.2F};
  for (const auto code : {PriorBoxParameter::CORNER, PriorBoxParameter::CORNER_SIZE,
                          PriorBoxParameter::CENTER_SIZE}) {
    const auto offsets = Encode(code, prior, variances, {0.2F, 0.3F, 0.7F, 0.5F});
    const float d[] = {static_cast<float>(offsets[0]), static_cast<float>(offsets[1]),
                       static_cast<float>(offsets[2]), static_cast<float>(offsets[3])};
    const Corners box = Decode(code, prior, variances, d);
    EXPECT_NEAR(box.x1, 0.2F, 1e-5F);
    EXPECT_NEAR(box.y1, 0.3F, 1e-5F);
    EXPECT_NEAR(box.x2, 0.7F, 1e-5F);
    EXPECT_NEAR(box.y2, 0.5F, 1e-5F);
  }
}

TEST(MatchBoxes, GivesEachBoxItsPriorAndOtherPriorsTheBestBox) {
  const std::vector<float> priors(kPriors.begin(), kPriors.end());
  const std::vector<GivenBox> boxes = {{1, {0, 0, 0.4F, 0.36F}}, {2, {0.8F, 0.8F, 1.1F, 1.1F}}};
  MultiBoxLossParameter param;
  param.set_overlap_threshold(0.3F);
  EXPECT_THAT(MatchBoxes(priors, boxes, param).box, ElementsAre(0, 0, 1, -1));
  EXPECT_EQ(MatchBoxes(priors, boxes, param).matched, 3);
  param.set_match_type(MultiBoxLossParameter::BIPARTITE);
  EXPECT_THAT(MatchBoxes(priors, boxes, param).box, ElementsAre(0, -1, 1, -1));
  param.set_ignore_cross_boundary_bbox(true);
  EXPECT_THAT(MatchBoxes(priors, boxes, param).box, ElementsAre(0, -1, -2, -1));
}

TEST(MultiBoxLoss, AddsOffsetsAndClassesOfMatchesAndHardNegatives) {
  LayerTester<double> layer(Text("code_type: CORNER neg_pos_ratio: 1 loc_weight: 2"),
                            {{1, 16}, {1, 12}, {1, 2, 16}, {1, 1, 1, 8}});
  // The box is prior 0, so its offsets should be 0; they are 0.5 and 2. Of the others prior 3 is
  // the worst as background: its scores prefer class 2.
  std::vector<double> offsets(16, 0), scores(12, 0);
  offsets[0] = 0.5;
  offsets[3] = 2;
  offsets[9] = 100;  // of no match
  scores[11] = std::log(2.0);
  layer.SetBottom(offsets).SetBottom(scores, 1).SetBottom(kPriors, 2);
  layer.SetBottom({0, 1, 0, 0, 0, 0.4, 0.4, 0}, 3).Forward();
  const double location = 0.5 * 0.5 / 2 + 2 - 0.5;
  EXPECT_NEAR(layer.top_values()[0], 2 * location + std::log(3.0) + std::log(4.0), 1e-6);
  layer.Backward({true, true, false, false});
  EXPECT_NEAR(layer.bottom_diff(0)[0], 2 * 0.5, 1e-6);
  EXPECT_NEAR(layer.bottom_diff(0)[3], 2, 1e-6);
  EXPECT_EQ(layer.bottom_diff(0)[9], 0);
  EXPECT_NEAR(layer.bottom_diff(1)[1], 1.0 / 3 - 1, 1e-6);
  EXPECT_NEAR(layer.bottom_diff(1)[11], 0.5, 1e-6);
  EXPECT_EQ(layer.bottom_diff(1)[4], 0);
}

TEST(MultiBoxLoss, WithoutBoxesIsZero) {
  LayerTester<double> layer(Text(""), kShapes);
  layer.SetBottom(kPriors, 2).SetBottom(std::vector<double>(24, -1), 3).Forward();
  EXPECT_EQ(layer.top_values()[0], 0);
  layer.Backward({true, true, false, false});
  EXPECT_THAT(layer.bottom_diff(1), Each(0));
}

TEST(MultiBoxLoss, HasTheGradientsOfItsFormulas) {
  for (const char* settings :
       {"code_type: CENTER_SIZE", "mining_type: NONE code_type: CENTER_SIZE",
        "conf_loss_type: LOGISTIC loc_loss_type: L2 code_type: CORNER_SIZE",
        "use_difficult_gt: false map_object_to_agnostic: true match_type: BIPARTITE"}) {
    LayerTester<double> layer(
        Text(settings) + " loss_weight: 0.5 loss_param { normalization: BATCH_SIZE }", kShapes);
    layer.SetBottom(kPriors, 2).SetBottom(kBoxes, 3);
    EXPECT_LT(GradientError(layer, {.bottoms = {0, 1}}), 1e-6) << settings;
  }
}

TEST(MultiBoxLoss, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& settings, const Shapes& shapes) {
    return ErrorText<ConfigError>([&] { LayerTester<double>(Text(settings), shapes); });
  };
  EXPECT_THAT(error("", {{2, 16}, {2, 11}, {1, 2, 16}, {1, 1, 3, 8}}),
              HasSubstr("but 4 priors and 2 images need 2 x 12"));
  EXPECT_THAT(error("", {{2, 16}, {2, 12}, {1, 2, 16}, {2, 1, 300, 5}}),
              HasSubstr("boxes have 8 numbers each"));
  EXPECT_THAT(error("mining_type: HARD_EXAMPLE", kShapes), HasSubstr("HARD_EXAMPLE is not built"));
  LayerTester<double> layer(Text(""), kShapes);
  std::vector<double> boxes = kBoxes;
  boxes[1] = 3;
  layer.SetBottom(kPriors, 2).SetBottom(boxes, 3);
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(); }),
              HasSubstr("has class 3, which is none of the 3 classes"));
}

}  // namespace
}  // namespace carafe
