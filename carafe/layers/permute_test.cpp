#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

struct Case {
  const char* name;
  const char* text;
  Shape bottom, top;
};
const Case kCases[] = {
    {"ToChannelsLast",
     "type: 'Permute' permute_param { order: [0, 2, 3, 1] }",
     {2, 3, 2, 4},
     {2, 2, 4, 3}},
    {"Transpose", "type: 'Permute' permute_param { order: 1 order: 0 }", {3, 4}, {4, 3}},
    {"RestInItsOrder", "type: 'Permute' permute_param { order: 2 }", {2, 3, 4, 2}, {4, 2, 3, 2}},
    {"WithoutOrder", "type: 'Permute'", {2, 3, 2}, {2, 3, 2}},
    {"OneAxis", "type: 'Permute'", {5}, {5}},
    {"FiveAxes",
     "type: 'Permute' permute_param { order: [4, 0, 3, 1, 2] }",
     {2, 1, 3, 2, 2},
     {2, 2, 2, 1, 3}},
};

class PermuteTest : public ::testing::TestWithParam<Case> {};
TEST_P(PermuteTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Layers, PermuteTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Permute, MovesEveryElement) {
  LayerTester<float> layer("type: 'Permute' permute_param { order: [0, 2, 1] }", {1, 2, 3});
  EXPECT_THAT(layer.SetBottom({1, 2, 3, 4, 5, 6}).Forward().top_values(),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Permute, AndItsInverseChangeNothing) {
  LayerTester<float> there("type: 'Permute' permute_param { order: [2, 0, 3, 1] }", {2, 3, 4, 5});
  there.Forward();
  LayerTester<float> back("type: 'Permute' permute_param { order: [1, 3, 0, 2] }", {4, 2, 5, 3});
  EXPECT_EQ(back.SetBottom(there.top_values()).Forward().top_values(), there.bottom_values());
}

TEST(Permute, RefusesAxesThatAreNotThere) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'Permute' permute_param { order: 0\norder: 3 }", {2, 3, 4});
      }),
      "test.prototxt:2:1: error: layer \"test\" (Permute): order names axis 3, but the bottom "
      "is 2 3 4 (24)\n  fix: name axes from 0 to 2");
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<float>("type: 'Permute' permute_param { order: 1 order: 1 }", {2, 3, 4});
            }),
            "test.prototxt:1:33: error: layer \"test\" (Permute): order names axis 1 twice\n"
            "  fix: name each axis once");
}

}  // namespace
}  // namespace carafe
