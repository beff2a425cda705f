#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = "type: 'Reorg' reorg_param { stride: 2 }";

// Darknet's loop, as it is written there: out[in_index] = x[out_index].
std::vector<float> ByDarknet(const std::vector<float>& x, int w, int h, int c, int stride) {
  std::vector<float> out(x.size());
  const int out_c = c / (stride * stride);
  for (int k = 0; k < c; ++k) {
    for (int j = 0; j < h; ++j) {
      for (int i = 0; i < w; ++i) {
        const int in_index = i + w * (j + h * k), c2 = k % out_c, offset = k / out_c;
        const int w2 = i * stride + offset % stride, h2 = j * stride + offset / stride;
        out[static_cast<size_t>(in_index)] =
            x[static_cast<size_t>(w2 + w * stride * (h2 + h * stride * c2))];
      }
    }
  }
  return out;
}

TEST(Reorg, IsDarknets) {
  LayerTester<float> layer(kText, {1, 8, 4, 6});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), (Shape{1, 32, 2, 3}));
  EXPECT_EQ(layer.top_values(), ByDarknet(layer.bottom_values(), 6, 4, 8, 2));
}

TEST(Reorg, AndItsReverseChangeNothing) {
  LayerTester<float> there(kText, {2, 4, 2, 4});
  there.Forward();
  LayerTester<float> back("type: 'Reorg' reorg_param { stride: 2 reverse: true }", {2, 16, 1, 2});
  back.SetBottom(there.top_values()).Forward();
  EXPECT_EQ(back.top().shape(), (Shape{2, 4, 2, 4}));
  EXPECT_EQ(back.top_values(), there.bottom_values());
}

TEST(Reorg, HasGradients) {
  LayerTester<double> layer(kText, {2, 4, 2, 4});
  EXPECT_LT(GradientError(layer), 1e-9);
  LayerTester<double> back("type: 'Reorg' reorg_param { stride: 2 reverse: true }", {1, 16, 1, 2});
  EXPECT_LT(GradientError(back), 1e-9);
}

TEST(Reorg, RefusesWhatItCannotDivide) {
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>(kText, {1, 4, 3, 4});
              }),
              HasSubstr("1 4 3 4 (48) cannot be divided by a stride of 2"));
  EXPECT_THAT(ErrorText<ConfigError>([] {
                LayerTester<float>("type: 'Reorg'", {1, 4, 4, 4});
              }),
              HasSubstr("stride is 0 or missing"));
}

}  // namespace
}  // namespace carafe
