#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& shapes) {
  return "type: \"Input\" top: \"a\" top: \"b\" input_param {" + shapes + "}";
}

TEST(Input, TakesOneShapeForAllTopsOrOnePerTop) {
  LayerTester<float> one(Text("shape { dim: 2 dim: 3 }"), Shapes{});
  EXPECT_EQ(one.top(0).shape(), (Shape{2, 3}));
  EXPECT_EQ(one.top(1).shape(), (Shape{2, 3}));
  LayerTester<float> two(Text("shape { dim: 2 } shape { }"), Shapes{});
  EXPECT_EQ(two.top(0).shape(), (Shape{2}));
  EXPECT_EQ(two.top(1).shape(), Shape{});
}

TEST(Input, KeepsTheShapeAndValuesThatItsUserGives) {
  LayerTester<float> layer(Text("shape { dim: 2 dim: 3 }"), Shapes{});
  layer.top(0).Reshape({1, 2});
  layer.top(0).SetData(layer.run().stream, std::vector<float>{7, 8});
  layer.Forward();
  EXPECT_EQ(layer.top(0).shape(), (Shape{1, 2}));
  EXPECT_EQ(layer.top_values(0), (std::vector<float>{7, 8}));
}

TEST(Input, RefusesAnotherNumberOfShapes) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>(Text("\nshape { dim: 1 } shape { dim: 1 } shape { dim: 1 }"),
                                 Shapes{});
            }),
            "test.prototxt:2:1: error: layer \"test\" (Input): 3 shapes are given for 2 tops\n"
            "  fix: give one shape for all tops, or one per top");
}

}  // namespace
}  // namespace carafe
