#include "carafe/core/shape.h"

#include <gtest/gtest.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

TEST(Shape, CountsElementsOverRangesOfAxes) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.Count(), 24);
  EXPECT_EQ(shape.Count(1), 12);
  EXPECT_EQ(shape.Count(0, 2), 6);
  EXPECT_EQ(Shape{}.Count(), 1);
  EXPECT_EQ((Shape{5, 0}.Count()), 0);
}

TEST(Shape, TakesNegativeAxesFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.CanonicalAxis(-3), 0);
  EXPECT_THROW(shape.CanonicalAxis(3), ConfigError);
  EXPECT_THROW(shape.CanonicalAxis(-4), ConfigError);
}

TEST(Shape, RefusesProductsBeyond64BitsAndNegativeSizes) {
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}), ConfigError);
  EXPECT_THROW((Shape{-1}), ConfigError);
  const std::vector<int64_t> many(33, 1);
  EXPECT_THROW(Shape{std::span<const int64_t>(many)}, ConfigError);
}

TEST(Shape, PrintsAsCaffeDoes) { EXPECT_EQ((Shape{64, 1, 28}.ToString()), "64 1 28 (1792)"); }

}  // namespace
}  // namespace carafe
