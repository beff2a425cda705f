#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::string& param) { return "type: 'Slice' slice_param {" + param + "}"; }

TEST(Slice, CutsEqualPartsOrAtPoints) {
  LayerTester<float> equal(Text(""), {1, 4}, {.tops = 2});
  equal.SetBottom({1, 2, 3, 4}).Forward();
  EXPECT_THAT(equal.top_values(0), ElementsAre(1, 2));
  EXPECT_THAT(equal.top_values(1), ElementsAre(3, 4));
  LayerTester<float> points(Text("slice_point: 1 slice_point: 3"), {2, 4}, {.tops = 3});
  points.SetBottom({1, 2, 3, 4, 5, 6, 7, 8}).Forward();
  EXPECT_THAT(points.top_values(0), ElementsAre(1, 5));
  EXPECT_THAT(points.top_values(1), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(points.top_values(2), ElementsAre(4, 8));
}

TEST(Slice, HasRightGradientsOnEveryAxis) {
  for (const char* axis : {"axis: 0", "axis: 1", "axis: -1", "slice_dim: 1"}) {
    LayerTester<double> layer(Text(std::string(axis) + " slice_point: 1"), {2, 3, 2}, {.tops = 2});
    EXPECT_LT(GradientError(layer), 1e-9) << axis;
  }
  LayerTester<double> single(Text(""), {2, 3}, {.tops = 1});
  EXPECT_LT(GradientError(single), 1e-9);
  EXPECT_TRUE(single.top().SharesDataWith(single.bottom()));
}

TEST(Slice, RefusesPointsThatDoNotFit) {
  const auto error = [](const std::string& param, int tops) {
    return ErrorText<ConfigError>([&] { LayerTester<float>(Text(param), {1, 4}, {.tops = tops}); });
  };
  EXPECT_EQ(
      error("", 3),
      "test.prototxt:1:15: error: layer \"test\" (Slice): axis 1 (4) cannot be cut into 3 equal "
      "parts\n  fix: give slice_point, or another number of tops");
  EXPECT_EQ(
      error("\n slice_point: 1 slice_point: 2", 2),
      "test.prototxt:2:2: error: layer \"test\" (Slice): 2 slice points are given for 2 tops\n"
      "  fix: give one point less than tops, or none for equal parts");
  const std::string order =
      "error: layer \"test\" (Slice): the slice points must rise and lie inside axis 1 (4)\n"
      "  fix: put them in order, from 1 to the size less 1";
  EXPECT_EQ(error("slice_point: 2\n slice_point: 2", 3), "test.prototxt:2:2: " + order);
  EXPECT_EQ(error("\n slice_point: 4", 2), "test.prototxt:2:2: " + order);
  EXPECT_EQ(error("\n slice_point: 5", 2), "test.prototxt:2:2: " + order);
}

}  // namespace
}  // namespace carafe
