#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& param) {
  return "type: \"Convolution\" convolution_param { " + param + " }";
}

struct Case {
  const char* name;
  const char* param;
  Shape bottom, top;
};
const Case kCases[] = {
    {"Plain", "num_output: 2 kernel_size: 3", {2, 2, 4, 5}, {2, 2, 2, 3}},
    {"StridedAndPadded",
     "num_output: 3 kernel_size: 3 stride: 2 pad: 1",
     {1, 2, 5, 6},
     {1, 3, 3, 3}},
    {"NamedSizes",
     "num_output: 1 kernel_h: 1 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 1",
     {2, 2, 3, 3},
     {2, 1, 2, 3}},
    {"Dilated", "num_output: 2 kernel_size: 2 dilation: 2", {1, 2, 4, 5}, {1, 2, 2, 3}},
    {"Grouped", "num_output: 4 kernel_size: 2 group: 2", {1, 4, 3, 3}, {1, 4, 2, 2}},
    {"WithoutBias", "num_output: 2 kernel_size: 2 bias_term: false", {1, 1, 3, 3}, {1, 2, 2, 2}},
    {"OneByOne", "num_output: 3 kernel_size: 1", {2, 2, 2, 3}, {2, 3, 2, 3}},
    {"OneByOneGrouped", "num_output: 4 kernel_size: 1 group: 2", {2, 2, 2, 2}, {2, 4, 2, 2}},
    {"OneByOneStrided", "num_output: 2 kernel_size: 1 stride: 2", {1, 2, 3, 3}, {1, 2, 2, 2}},
    {"OneSpatialAxis", "num_output: 2 kernel_size: 3 pad: 1", {2, 2, 5}, {2, 2, 5}},
    {"ThreeSpatialAxes",
     "num_output: 2 kernel_size: 2 kernel_size: 1 kernel_size: 2",
     {1, 2, 3, 2, 3},
     {1, 2, 2, 2, 2}},
    {"NoSpatialAxis", "num_output: 3", {4, 2}, {4, 3}},
    {"OtherChannelAxis", "num_output: 2 kernel_size: 2 axis: 2", {2, 2, 3, 4}, {2, 2, 2, 3}},
    {"ChannelAxisFromTheEnd", "num_output: 2 kernel_size: 2 axis: -2", {2, 2, 4}, {2, 2, 3}},
    {"WithForcedGeneralCode",
     "num_output: 2 kernel_size: 2 force_nd_im2col: true engine: CUDNN",
     {1, 2, 3, 3},
     {1, 2, 2, 2}},
};

class ConvolutionTest : public ::testing::TestWithParam<Case> {};
TEST_P(ConvolutionTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(Text(GetParam().param), GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Convolution, SlidesItsFilterWithoutFlippingIt) {
  LayerTester<float> layer(Text("num_output: 1 kernel_size: 2"), {1, 1, 2, 3});
  layer.SetBottom({1, 2, 3, 4, 5, 6}).SetParam(0, {1, 10, 100, 1000}).SetParam(1, {0.5});
  EXPECT_THAT(layer.Forward().top_values(), ::testing::ElementsAre(5421.5, 6532.5));
}

TEST(Convolution, SharesItsWeightsBetweenPairsOfBottomAndTop) {
  LayerTester<double> layer(Text("num_output: 2 kernel_size: 2"), {{1, 2, 3, 3}, {1, 2, 3, 3}});
  EXPECT_EQ(layer.num_tops(), 2);
  EXPECT_EQ(layer.num_params(), 2);
  EXPECT_LT(GradientError(layer), 1e-8);
}

TEST(Convolution, FollowsABottomThatChangesItsSize) {
  LayerTester<float> layer(Text("num_output: 1 kernel_size: 2"), {1, 1, 2, 3});
  layer.Forward().SetBottomShape({2, 1, 4, 4}).Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{2, 1, 3, 3}));
  layer.SetBottomShape({1, 1, 2, 2}).SetBottom({1, 2, 3, 4}).SetParam(0, {1, 1, 1, 1});
  EXPECT_THAT(layer.Forward().top_values(), ::testing::ElementsAre(10));
}

TEST(Convolution, GivesTheSameWithSeveralThreads) {
  const std::string text =
      Text("num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' }");
  LayerTester<double> one(text, {2, 8, 24, 24}), three(text, {2, 8, 24, 24}, {.threads = 3});
  const std::vector<double> a = one.Forward().top_values(), b = three.Forward().top_values();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-12);
}

TEST(Convolution, InfersHugeShapesWithoutMemory) {
  LayerParameter param;
  ParseText(Text("num_output: 7 kernel_size: 3"), "test.prototxt", &param);
  const auto layer = MakeLayer<float>(LayerSpec(param, TRAIN));
  const Shape huge{int64_t{1} << 20, 3, int64_t{1} << 14, int64_t{1} << 14};
  EXPECT_EQ(layer->InferShapes({huge})[0],
            (Shape{int64_t{1} << 20, 7, (int64_t{1} << 14) - 2, (int64_t{1} << 14) - 2}));
}

struct BadCase {
  const char* name;
  const char* param;
  Shape bottom;
  const char* error;
};
const BadCase kBadCases[] = {
    {"WithoutFilters",
     "\n kernel_size: 3",
     {1, 1, 3, 3},
     "test.prototxt:1:21: error: layer \"test\" (Convolution): num_output is 0 or missing\n"
     "  fix: give the number of filters, e.g. num_output: 20"},
    {"WithoutKernel",
     "num_output: 1",
     {1, 1, 3, 3},
     "test.prototxt:1:21: error: layer \"test\" (Convolution): kernel_size is missing\n"
     "  fix: give the size of the window, e.g. kernel_size: 3"},
    {"WithTwoFormsOfKernel",
     "num_output: 1 kernel_size: 3\n kernel_h: 3 kernel_w: 3",
     {1, 1, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): kernel_size and kernel_h/kernel_w "
     "are "
     "both given\n  fix: keep one of the two forms"},
    {"WithNamedSizesForOneAxis",
     "num_output: 1 kernel_h: 3 kernel_w: 3",
     {1, 1, 3},
     "test.prototxt:1:55: error: layer \"test\" (Convolution): kernel_h and kernel_w need two "
     "spatial axes, the bottom has 1\n  fix: give kernel_size once per spatial axis instead"},
    {"WithKernelZero",
     "num_output: 1\n kernel_size: 0",
     {1, 1, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): the kernel size is 0\n"
     "  fix: use 1 or more for every axis (with _h, _w: give both)"},
    {"WithStrideZero",
     "num_output: 1 kernel_size: 2\n stride: 0",
     {1, 1, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): the stride is 0\n"
     "  fix: use 1 or more for every axis (with _h, _w: give both)"},
    {"WithOneNamedStride",
     "num_output: 1 kernel_size: 2 stride_h: 2",
     {1, 1, 3, 3},
     "test.prototxt:1:21: error: layer \"test\" (Convolution): the stride is 0\n"
     "  fix: use 1 or more for every axis (with _h, _w: give both)"},
    {"WithAKernelPerTooManyAxes",
     "num_output: 1\n kernel_size: 2 kernel_size: 2 kernel_size: 2",
     {1, 1, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): kernel_size is given 3 times, but "
     "the "
     "bottom has 2 spatial axes\n  fix: give it once, or once per spatial axis"},
    {"WithAKernelLargerThanTheInput",
     "num_output: 1\n kernel_size: 6 pad: 1",
     {1, 1, 4, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): the window (6 wide) is larger than "
     "axis 3 of the bottom (3 with 1 of padding on both sides)\n"
     "  fix: use a smaller kernel or dilation, or a larger pad or input"},
    {"WithGroupsThatDoNotDivideTheChannels",
     "num_output: 2 kernel_size: 1\n group: 2",
     {1, 3, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): the bottom's 3 channels cannot be "
     "divided into 2 groups\n  fix: use a group that divides the number of channels"},
    {"WithGroupsThatDoNotDivideTheFilters",
     "num_output: 3 kernel_size: 1\n group: 2",
     {1, 2, 3, 3},
     "test.prototxt:2:2: error: layer \"test\" (Convolution): num_output 3 cannot be divided into "
     "2 "
     "groups\n  fix: use a group that divides num_output"},
};

class ConvolutionRefusesTest : public ::testing::TestWithParam<BadCase> {};
TEST_P(ConvolutionRefusesTest, WithPlaceCauseAndRemedy) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] { LayerTester<float>(Text(GetParam().param), GetParam().bottom); }),
      GetParam().error);
}
INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionRefusesTest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

TEST(Convolution, RefusesBottomsOfDifferentShapes) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>(Text("num_output: 1 kernel_size: 1"), {{1, 1, 2, 2}, {1, 1, 2, 3}});
      }),
      "test.prototxt: error: layer \"test\" (Convolution): the bottoms have different shapes: "
      "1 1 2 2 (4) and 1 1 2 3 (6)\n"
      "  fix: use one layer per shape; weights can be shared by name (param { name })");
}

}  // namespace
}  // namespace carafe
