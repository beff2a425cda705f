// That the gradient is right is tested with the other algorithms (convolution_algorithms_test.cpp).
#include "carafe/kernels/cpu_few_channels.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

using Values = std::vector<float>;

Values Gradient(const ConvolutionShape& s, int threads) {
  const int64_t padded_out = (s.out_channels + 7) / 8 * 8;
  const Values x = NormalFloats(s.images * s.in_channels * s.in_h * s.in_w, 1);
  const Values dy = NormalFloats(s.images * padded_out * s.out_h * s.out_w, 2);
  Values dw = NormalFloats(s.weight_count(), 3);
  const size_t floats = FewChannelsScratchBytes(s, threads) / sizeof(float);
  Values scratch(floats + 16, 7.0f);
  float* at = scratch.data();
  while (reinterpret_cast<uintptr_t>(at) % 64 != 0) ++at;
  FewChannelsBackwardWeights(threads, s, x.data(), dy.data(), dw.data(), at);
  for (const float* end = at + floats; end < scratch.data() + scratch.size(); ++end) {
    EXPECT_EQ(*end, 7.0f) << "written behind the scratch";
  }
  return dw;
}

TEST(FewChannels, GiveTheSameBitsForAnyNumberOfThreads) {
  const ConvolutionShape s{.images = 37,
                           .in_channels = 3,
                           .out_channels = 20,
                           .in_h = 9,
                           .in_w = 10,
                           .out_h = 9,
                           .out_w = 10,
                           .kernel_h = 5,
                           .kernel_w = 5,
                           .pad_h = 2,
                           .pad_w = 2};
  const Values alone = Gradient(s, 1);
  EXPECT_EQ(alone, Gradient(s, 2));
  EXPECT_EQ(alone, Gradient(s, 5));
}

TEST(FewChannels, AreFewerThanABlockInOneGroup) {
  ConvolutionShape s{.in_channels = 7, .out_channels = 7};
  EXPECT_TRUE(FewChannelsSupports(s));
  s.groups = 7;
  EXPECT_FALSE(FewChannelsSupports(s));
  s = {.in_channels = 8, .out_channels = 8};
  EXPECT_FALSE(FewChannelsSupports(s));
}

}  // namespace
}  // namespace carafe
