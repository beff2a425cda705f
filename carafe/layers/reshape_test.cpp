#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  const char* text;
  Shape bottom, top;
};
const Case kCases[] = {
    {"Reshape", "type: 'Reshape' reshape_param { shape { dim: 3 dim: 4 } }", {2, 6}, {3, 4}},
    {"ReshapeKeepsZeros",
     "type: 'Reshape' reshape_param { shape { dim: 0 dim: 0 dim: 2 dim: 2 } }",
     {2, 3, 4},
     {2, 3, 2, 2}},
    {"ReshapeInfersMinusOne",
     "type: 'Reshape' reshape_param { shape { dim: -1 dim: 4 } }",
     {2, 6},
     {3, 4}},
    {"ReshapeFromAxis",
     "type: 'Reshape' reshape_param { axis: 1 shape { dim: 2 dim: 3 } }",
     {2, 6},
     {2, 2, 3}},
    {"ReshapeAFewAxes",
     "type: 'Reshape' reshape_param { axis: 1 num_axes: 1 shape { dim: 2 dim: -1 } }",
     {2, 6, 2},
     {2, 2, 3, 2}},
    {"ReshapeInsertsAnAxis",
     "type: 'Reshape' reshape_param { axis: 1 num_axes: 0 shape { dim: 1 } }",
     {2, 6},
     {2, 1, 6}},
    {"ReshapeAppendsAnAxis",
     "type: 'Reshape' reshape_param { axis: -1 shape { dim: 1 dim: 1 } }",
     {2, 6},
     {2, 6, 1, 1}},
    {"ReshapeToAScalar", "type: 'Reshape' reshape_param { shape { } }", {1, 1}, Shape{}},
};

class ReshapeTest : public ::testing::TestWithParam<Case> {};
TEST_P(ReshapeTest, InfersItsShapeAndSharesMemory) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_EQ(layer.Forward().top_values(), layer.bottom_values());
  EXPECT_TRUE(layer.top().SharesDataWith(layer.bottom()));
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, ReshapeTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Reshape, SaysWhatDoesNotFit) {
  const auto error = [](const std::string& param) {
    return ErrorText<ConfigError>([&] {
      LayerTester<float>("type: 'Reshape' reshape_param {" + param + "}", {2, 6});
    });
  };
  const std::string start = "error: layer \"test\" (Reshape): ";
  EXPECT_EQ(error("shape { dim: -1\n dim: -1 }"), "test.prototxt:2:2: " + start +
                                                      "more than one size is -1\n"
                                                      "  fix: leave only one size to be inferred");
  EXPECT_EQ(error("\n shape { dim: 5 }"),
            "test.prototxt:2:2: " + start +
                "the new shape 5 (5) has another number of elements than "
                "the bottom's 2 6 (12)\n"
                "  fix: give sizes with the same product, or -1 for one of them");
  EXPECT_EQ(error("\n shape { dim: 5 dim: -1 }"),
            "test.prototxt:2:2: " + start +
                "the bottom's 12 elements cannot be divided by the 5 of "
                "the other axes to infer the size -1\n"
                "  fix: give sizes whose product divides the bottom's");
  EXPECT_EQ(error("shape { dim: 12 dim: 1\n dim: 0 }"),
            "test.prototxt:2:2: " + start +
                "size 0 keeps axis 2 of the bottom, which has only 2\n"
                "  fix: give the size");
  EXPECT_EQ(error("shape { dim: 12 }\n axis: 3"),
            "test.prototxt:2:2: " + start +
                "axis 3 is out of range for a blob of shape 2 6 (12)\n"
                "  fix: use an axis from -3 to 2");
}

TEST(Reshape, CannotRunInPlace) {
  EXPECT_THROW(LayerTester<float>("type: 'Reshape'", {2}, {.in_place = true}), ConfigError);
}

}  // namespace
}  // namespace carafe
