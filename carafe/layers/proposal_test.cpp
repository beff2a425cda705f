#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr char kOne[] =
    "type: 'Proposal' proposal_param { ratio: 1 scale: 1 min_size: 4 post_nms_topn: 5 ";

TEST(Proposal, MovesAnchorsAndKeepsTheBest) {
  LayerTester<float> layer(std::string(kOne) + "nms_thresh: 0.5 }",
                           Shapes{{1, 2, 1, 2}, {1, 4, 1, 2}, {1, 3}}, {.tops = 2});
  // Anchors are 16 x 16 at 0 and 16. The second moves by a quarter of its width and doubles its
  // height, which is clipped to the image.
  layer.SetBottom({0, 0, 0.2F, 0.9F});
  layer.SetBottom({0, 0.25F, 0, 0, 0, 0, 0, std::log(2.0F)}, 1);
  layer.SetBottom({20, 40, 1}, 2).Forward();
  ASSERT_EQ(layer.top(0).shape(), (Shape{2, 5}));
  EXPECT_THAT(layer.top_values(0),
              Pointwise(FloatNear(1e-4F), std::vector<float>{0, 20, 0, 36, 19, 0, 0, 0, 16, 16}));
  EXPECT_THAT(layer.top_values(1), Pointwise(FloatNear(0), std::vector<float>{0.9F, 0.2F}));
}

TEST(Proposal, LeavesOutSmallAndOverlappingRegions) {
  LayerTester<float> overlapping(std::string(kOne) + "nms_thresh: 0.1 feat_stride: 8 }",
                                 Shapes{{1, 2, 1, 2}, {1, 4, 1, 2}, {1, 3}});
  overlapping.SetBottom({0, 0, 0.2F, 0.9F}).SetBottom(std::vector<float>(8, 0), 1);
  overlapping.SetBottom({20, 40, 1}, 2).Forward();
  EXPECT_THAT(overlapping.top_values(0),
              Pointwise(FloatNear(1e-4F), std::vector<float>{0, 8, 0, 24, 16}));
  overlapping.SetBottom({20, 40, 4.5F}, 2).Forward();  // the least side is 18 now
  EXPECT_EQ(overlapping.top(0).shape(), (Shape{0, 5}));
}

// The nine anchors of the paper: the first is the known -84 -40 99 55.
TEST(Proposal, HasTheAnchorsOfFasterRcnn) {
  LayerTester<float> layer("type: 'Proposal' proposal_param { nms_thresh: 1 min_size: 1 }",
                           Shapes{{1, 18, 1, 1}, {1, 36, 1, 1}, {1, 3}});
  std::vector<float> scores(18, 0), offsets(36, 0);
  scores[9] = 1;
  offsets[0] = 1;     // by its width of 184 to the right
  offsets[1] = 0.5F;  // by half its height of 96 down
  layer.SetBottom(scores).SetBottom(offsets, 1).SetBottom({1000, 1000, 1}, 2).Forward();
  const std::vector<float> regions = layer.top_values(0);
  EXPECT_THAT(std::vector<float>(regions.begin(), regions.begin() + 5),
              Pointwise(FloatNear(1e-3F), std::vector<float>{0, 100, 8, 284, 104}));
}

TEST(Proposal, RefusesOtherNumbersOfAnchors) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>("type: 'Proposal'", Shapes{{1, 2, 1, 1}, {1, 36, 1, 1}, {1, 3}});
              }),
              HasSubstr("9 anchors need scores (1, 18, H, W)"));
}

}  // namespace
}  // namespace carafe
