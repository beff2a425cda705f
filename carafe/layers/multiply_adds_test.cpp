// How many multiply-adds the layers say that their Forward takes.
#include "carafe/layers/multiply_adds.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

int64_t Of(const std::string& text, const Shapes& bottoms) {
  LayerParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param));
  for (size_t i = 0; i < bottoms.size(); ++i) param.add_bottom("bottom" + std::to_string(i));
  if (param.top_size() == 0) param.add_top("top");
  return MakeLayer<float>(LayerSpec(param, TRAIN))->MultiplyAdds(bottoms);
}

TEST(MultiplyAdds, OfAConvolutionAreOutputsTimesWindow) {
  // Two groups of 2 channels each; 2 images of 6x5x5 outputs, windows of 2x3x3.
  EXPECT_EQ(Of("type: 'Convolution' convolution_param { num_output: 6 kernel_size: 3 group: 2 }",
               {{2, 4, 7, 7}}),
            2 * 6 * 25 * 2 * 9);
}

TEST(MultiplyAdds, OfSeveralTopsAddUp) {
  EXPECT_EQ(Of("type: 'Convolution' top: 'a' top: 'b' convolution_param { num_output: 1 "
               "kernel_size: 3 bias_term: false }",
               {{1, 1, 3, 3}, {1, 1, 3, 3}}),
            18);
}

TEST(MultiplyAdds, OfADeconvolutionAreInputsTimesWindow) {
  EXPECT_EQ(Of("type: 'Deconvolution' convolution_param { num_output: 6 kernel_size: 3 stride: 2 }",
               {{2, 4, 3, 3}}),
            2 * 4 * 9 * 6 * 9);
}

TEST(MultiplyAdds, OfAnInnerProductAreRowsTimesWeights) {
  EXPECT_EQ(Of("type: 'InnerProduct' inner_product_param { num_output: 3 }", {{8, 5, 2}}), 8 * 30);
  EXPECT_EQ(Of("type: 'InnerProduct' inner_product_param { num_output: 3 axis: 2 }", {{8, 4, 10}}),
            32 * 30);
}

TEST(MultiplyAdds, OfAnLstmAreItsMatricesAtEachStep) {
  // T 5, N 2, X 3, D 4: G = 16.
  EXPECT_EQ(Of("type: 'LSTM' recurrent_param { num_output: 4 }", {{5, 2, 3}, {5, 2}}),
            10 * (16 * 3 + 16 * 4));
}

TEST(MultiplyAdds, OfAStaticInputAreTakenOncePerSequence) {
  EXPECT_EQ(Of("type: 'LSTM' recurrent_param { num_output: 4 }", {{5, 2, 3}, {5, 2}, {2, 7}}),
            10 * (16 * 3 + 16 * 4) + 2 * 16 * 7);
}

TEST(MultiplyAdds, OfAnRnnCountItsOutputToo) {
  EXPECT_EQ(Of("type: 'RNN' recurrent_param { num_output: 4 }", {{5, 2, 3}, {5, 2}}),
            10 * (4 * 3 + 4 * 4 + 4 * 4));
}

TEST(MultiplyAdds, OfAnythingElseAreNone) {
  EXPECT_EQ(Of("type: 'Embed' embed_param { num_output: 3 input_dim: 100 }", {{8}}), 0);
  EXPECT_EQ(Of("type: 'Scale'", {{8, 3}}), 0);
  EXPECT_EQ(Of("type: 'Pooling' pooling_param { kernel_size: 2 }", {{1, 1, 4, 4}}), 0);
}

TEST(MultiplyAdds, BeyondSixtyThreeBitsAreAnError) {
  EXPECT_THROW(Of("type: 'InnerProduct' inner_product_param { num_output: 1048576 }",
                  {{int64_t{1} << 35, int64_t{1} << 20}}),
               ConfigError);
  EXPECT_THROW(CheckedSum(INT64_MAX, 1), ConfigError);
}

}  // namespace
}  // namespace carafe
