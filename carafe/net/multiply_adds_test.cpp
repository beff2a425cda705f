#include "carafe/net/multiply_adds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

int64_t Count(const std::string& type, const Shapes& bottoms, const Shapes& tops,
              const Shapes& params) {
  LayerParameter layer;
  layer.set_type(type);
  return MultiplyAdds(layer, bottoms, tops, params);
}

TEST(MultiplyAdds, OfAConvolutionAreOutputsTimesWindow) {
  // Two groups of 2 channels each; 2 images of 6x5x5 outputs, windows of 2x3x3.
  EXPECT_EQ(Count("Convolution", {{2, 4, 7, 7}}, {{2, 6, 5, 5}}, {{6, 2, 3, 3}, {6}}),
            2 * 6 * 25 * 2 * 9);
}

TEST(MultiplyAdds, OfSeveralTopsAddUp) {
  EXPECT_EQ(Count("Convolution", {{1, 1, 3, 3}, {1, 1, 3, 3}}, {{1, 1, 1, 1}, {1, 1, 1, 1}},
                  {{1, 1, 3, 3}}),
            18);
}

TEST(MultiplyAdds, OfADeconvolutionAreInputsTimesWindow) {
  EXPECT_EQ(Count("Deconvolution", {{2, 4, 3, 3}}, {{2, 6, 7, 7}}, {{4, 6, 3, 3}, {6}}),
            2 * 4 * 9 * 6 * 9);
}

TEST(MultiplyAdds, OfAnInnerProductAreRowsTimesWeights) {
  EXPECT_EQ(Count("InnerProduct", {{8, 5, 2}}, {{8, 3}}, {{3, 10}, {3}}), 8 * 30);
  EXPECT_EQ(Count("InnerProduct", {{8, 4, 10}}, {{8, 4, 3}}, {{3, 10}, {3}}), 32 * 30);
}

TEST(MultiplyAdds, OfAnLstmAreItsMatricesAtEachStep) {
  // T 5, N 2, X 3, D 4: G = 16.
  EXPECT_EQ(Count("LSTM", {{5, 2, 3}, {5, 2}}, {{5, 2, 4}}, {{16, 3}, {16}, {16, 4}}),
            10 * (16 * 3 + 16 * 4));
}

TEST(MultiplyAdds, OfAStaticInputAreTakenOncePerSequence) {
  EXPECT_EQ(
      Count("LSTM", {{5, 2, 3}, {5, 2}, {2, 7}}, {{5, 2, 4}}, {{16, 3}, {16}, {16, 7}, {16, 4}}),
      10 * (16 * 3 + 16 * 4) + 2 * 16 * 7);
}

TEST(MultiplyAdds, OfAnRnnCountItsOutputToo) {
  EXPECT_EQ(Count("RNN", {{5, 2, 3}, {5, 2}}, {{5, 2, 4}}, {{4, 3}, {4}, {4, 4}, {4, 4}, {4}}),
            10 * (4 * 3 + 4 * 4 + 4 * 4));
}

TEST(MultiplyAdds, OfAnythingElseAreNone) {
  EXPECT_EQ(Count("Embed", {{8}}, {{8, 3}}, {{100, 3}, {3}}), 0);
  EXPECT_EQ(Count("Scale", {{8, 3}}, {{8, 3}}, {{3}}), 0);
  EXPECT_EQ(Count("Pooling", {{1, 1, 4, 4}}, {{1, 1, 2, 2}}, {}), 0);
}

TEST(MultiplyAdds, BeyondSixtyThreeBitsAreAnError) {
  const int64_t large = int64_t{1} << 35;
  EXPECT_THROW(Count("InnerProduct", {{large, large >> 6}}, {{large, 1}}, {{1, large >> 6}}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
