// Depthwise kernels against the grouped matrix products that they replace, and through the layers.
#include "carafe/kernels/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "carafe/base/random.h"
#include "carafe/layers/column_product.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  DepthwiseGeometry g;  // out_height and out_width are filled in below
};
// images, channels, multiplier, height, width, -, -, kernel, stride, pad, dilation (h, w each)
const Case kCases[] = {
    {"ThreeByThree", {2, 3, 1, 9, 11, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1}},
    {"ThreeByThreeWithoutPadding", {2, 3, 1, 9, 11, 0, 0, 3, 3, 1, 1, 0, 0, 1, 1}},
    {"ThreeByThreeStrided", {2, 3, 1, 9, 12, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1}},
    {"ThreeByThreeDilated", {1, 2, 1, 9, 12, 0, 0, 3, 3, 1, 1, 2, 2, 2, 2}},
    {"ThreeByThreeStridedDilated", {1, 2, 1, 9, 17, 0, 0, 3, 3, 2, 3, 1, 2, 2, 2}},
    {"FiveByFive", {1, 2, 1, 8, 20, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1}},
    {"FiveByFiveStrided", {1, 2, 1, 8, 21, 0, 0, 5, 5, 2, 2, 2, 2, 1, 1}},
    {"OtherKernels", {1, 2, 1, 8, 10, 0, 0, 2, 4, 1, 1, 0, 1, 1, 1}},
    {"SevenBySeven", {1, 2, 1, 7, 7, 0, 0, 7, 7, 1, 1, 3, 3, 1, 1}},
    {"OneByOne", {2, 3, 1, 4, 5, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1}},
    {"StrideBeyondTheKernel", {1, 2, 1, 9, 9, 0, 0, 1, 2, 3, 4, 0, 0, 1, 1}},
    {"PaddedBeyondTheKernel", {1, 2, 1, 3, 2, 0, 0, 3, 3, 1, 1, 4, 5, 1, 1}},
    {"PaddedBeyondTheKernelStrided", {1, 2, 1, 3, 2, 0, 0, 2, 3, 2, 2, 4, 5, 1, 1}},
    {"WindowWiderThanTheImage", {1, 2, 1, 5, 1, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1}},
    {"SeveralFeaturesOfAChannel", {2, 3, 4, 6, 7, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1}},
    {"SeveralFeaturesStrided", {2, 3, 2, 6, 7, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1}},
    {"PlanesBeyondTheScratch", {1, 2, 1, 70, 67, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1}},
    {"PlanesBeyondTheScratchStrided", {1, 2, 1, 70, 67, 0, 0, 3, 3, 2, 2, 1, 1, 1, 1}},
    {"PlanesBeyondTheScratchOfFive", {1, 2, 2, 70, 67, 0, 0, 5, 5, 1, 1, 2, 2, 1, 1}},
    {"PlanesBeyondTheScratchDilated", {1, 1, 1, 70, 67, 0, 0, 3, 3, 1, 1, 3, 2, 2, 3}},
    {"PlanesBeyondTheScratchOfFour", {1, 1, 1, 70, 67, 0, 0, 4, 4, 1, 2, 1, 5, 1, 1}},
    {"LongRows", {1, 2, 1, 1, 5000, 0, 0, 1, 7, 1, 1, 0, 3, 1, 1}},
    {"ManyColumns", {1, 1, 1, 4, 61, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1}},
};

template <typename T>
std::vector<T> Numbers(int64_t n, uint64_t seed) {
  const RandomKey key = MakeRandomKey(seed, "numbers", 0);
  std::vector<T> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(static_cast<T>(key.Uniform(0, i) - 0.5));
  return result;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<T>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
}

class DepthwiseTest : public ::testing::TestWithParam<Case> {
 protected:
  template <typename T>
  void Check(double tolerance, int threads) {
    DepthwiseGeometry g = GetParam().g;
    const auto out = [](int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
      return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    };
    g.out_height = out(g.height, g.kernel_h, g.stride_h, g.pad_h, g.dilation_h);
    g.out_width = out(g.width, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w);
    ColumnGeometry columns;
    columns.axes = 2;
    columns.channels = g.channels;
    const int64_t all[6][2] = {{g.height, g.width},      {g.out_height, g.out_width},
                               {g.kernel_h, g.kernel_w}, {g.stride_h, g.stride_w},
                               {g.pad_h, g.pad_w},       {g.dilation_h, g.dilation_w}};
    for (int a = 0; a < 2; ++a) {
      columns.in[a] = all[0][a];
      columns.out[a] = all[1][a];
      columns.kernel[a] = all[2][a];
      columns.stride[a] = all[3][a];
      columns.pad[a] = all[4][a];
      columns.dilation[a] = all[5][a];
    }
    ColumnProduct<T> product;
    product.Configure(columns, g.features(), g.channels);
    Stream stream(CpuDevice(), threads);
    const int64_t in = product.x_size(), top = product.y_size();
    const auto x = Numbers<T>(g.images * in, 1), y = Numbers<T>(g.images * top, 2),
               w = Numbers<T>(g.features() * g.kernel_h * g.kernel_w, 3);
    std::vector<T> y1(y.size(), 7), y2 = y1, x1(x.size(), 7), x2 = x1, w1(w.size(), 1), w2 = w1;
    for (int64_t n = 0; n < g.images; ++n) {
      product.Apply(stream, w.data(), x.data() + n * in, y1.data() + n * top);
      product.ApplyTransposed(stream, w.data(), y.data() + n * top, x1.data() + n * in);
      product.AddWeightGradient(stream, x.data() + n * in, y.data() + n * top, w1.data());
    }
    DepthwiseApply(stream, g, w.data(), x.data(), y2.data());
    DepthwiseApplyTransposed(stream, g, w.data(), y.data(), x2.data());
    DepthwiseAddWeightGradient(stream, g, x.data(), y.data(), w2.data());
    ExpectNear(y2, y1, tolerance);
    ExpectNear(x2, x1, tolerance);
    ExpectNear(w2, w1, tolerance);
  }
};
TEST_P(DepthwiseTest, EqualsGroupedProductsInDouble) { Check<double>(1e-12, 1); }
TEST_P(DepthwiseTest, EqualsGroupedProductsInFloat) { Check<float>(1e-5, 1); }
TEST_P(DepthwiseTest, EqualsGroupedProductsWithThreads) { Check<double>(1e-12, 3); }
INSTANTIATE_TEST_SUITE_P(Kernels, DepthwiseTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

struct LayerCase {
  const char* name;
  const char* text;
  Shape bottom, top;
};
const LayerCase kLayers[] = {
    {"Convolution",
     "type: 'Convolution' convolution_param { num_output: 3 group: 3 kernel_size: 3 pad: 1 }",
     {2, 3, 4, 5},
     {2, 3, 4, 5}},
    {"ConvolutionStrided",
     "type: 'Convolution' convolution_param { num_output: 6 group: 3 kernel_size: 3 stride: 2 }",
     {2, 3, 5, 5},
     {2, 6, 2, 2}},
    {"ConvolutionOfRows",
     "type: 'Convolution' convolution_param { num_output: 2 group: 2 kernel_size: 3 dilation: 2 }",
     {2, 2, 7},
     {2, 2, 3}},
    {"ConvolutionOfVolumesByProducts",
     "type: 'Convolution' convolution_param { num_output: 2 group: 2 kernel_size: 2 }",
     {1, 2, 3, 3, 3},
     {1, 2, 2, 2, 2}},
    {"Deconvolution",
     "type: 'Deconvolution' convolution_param { num_output: 3 group: 3 kernel_size: 4 stride: 2 "
     "pad: 1 }",
     {2, 3, 2, 3},
     {2, 3, 4, 6}},
    {"DeconvolutionToFewerChannels",
     "type: 'Deconvolution' convolution_param { num_output: 2 group: 2 kernel_size: 3 }",
     {1, 4, 2, 3},
     {1, 2, 4, 5}},
};

class DepthwiseLayerTest : public ::testing::TestWithParam<LayerCase> {};
TEST_P(DepthwiseLayerTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(GetParam().text, GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, DepthwiseLayerTest, ::testing::ValuesIn(kLayers),
                         [](const auto& info) { return info.param.name; });

TEST(Depthwise, FollowsABottomThatChangesItsSize) {
  LayerTester<double> layer(
      "type: 'Convolution' convolution_param { num_output: 2 group: 2 kernel_size: 2 "
      "bias_term: false }",
      {1, 2, 3, 3});
  layer.Forward().SetBottomShape({2, 2, 2, 2}).SetParam(0, {1, 1, 1, 1, 2, 2, 2, 2});
  layer.SetBottom({1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 2, 2, 2, 2}).Forward();
  EXPECT_EQ(layer.top_values(), (std::vector<double>{10, 52, 4, 16}));
}

}  // namespace
}  // namespace carafe
