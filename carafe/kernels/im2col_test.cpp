#include "carafe/kernels/im2col.h"

#include <gtest/gtest.h>

#include <vector>

#include "carafe/base/random.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  int64_t channels;
  std::vector<int64_t> in, kernel, stride, pad, dilation;
};
const Case kCases[] = {
    {"OneAxis", 2, {7}, {3}, {1}, {0}, {1}},
    {"OneAxisPaddedStrided", 2, {7}, {3}, {2}, {2}, {1}},
    {"TwoAxes", 3, {5, 6}, {3, 2}, {1, 1}, {0, 0}, {1, 1}},
    {"TwoAxesPadded", 2, {5, 6}, {3, 3}, {1, 1}, {1, 2}, {1, 1}},
    {"TwoAxesPaddedBeyondTheKernel", 1, {3, 2}, {2, 2}, {1, 1}, {3, 4}, {1, 1}},
    {"TwoAxesStrided", 2, {7, 9}, {3, 3}, {2, 3}, {1, 0}, {1, 1}},
    {"TwoAxesDilated", 2, {9, 8}, {3, 2}, {1, 2}, {2, 1}, {2, 3}},
    {"ThreeAxes", 2, {4, 5, 3}, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}},
    {"FourAxes", 1, {3, 2, 3, 4}, {2, 1, 2, 3}, {1, 1, 2, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}},
};

ColumnGeometry GeometryOf(const Case& c) {
  ColumnGeometry g;
  g.axes = static_cast<int>(c.in.size());
  g.channels = c.channels;
  for (size_t a = 0; a < c.in.size(); ++a) {
    g.in[a] = c.in[a];
    g.kernel[a] = c.kernel[a];
    g.stride[a] = c.stride[a];
    g.pad[a] = c.pad[a];
    g.dilation[a] = c.dilation[a];
    g.out[a] = (c.in[a] + 2 * c.pad[a] - (c.dilation[a] * (c.kernel[a] - 1) + 1)) / c.stride[a] + 1;
  }
  return g;
}

// The image element that a window's kernel element covers, or -1: straight from the definition.
int64_t Covered(const ColumnGeometry& g, int64_t channel, int64_t kernel, int64_t window) {
  int64_t offset = 0, step = 1;
  for (int a = g.axes - 1; a >= 0; --a) {
    const int64_t at =
        window % g.out[a] * g.stride[a] + kernel % g.kernel[a] * g.dilation[a] - g.pad[a];
    if (at < 0 || at >= g.in[a]) return -1;
    offset += at * step;
    step *= g.in[a];
    window /= g.out[a];
    kernel /= g.kernel[a];
  }
  return channel * g.in_size() + offset;
}

class Im2colTest : public ::testing::TestWithParam<Case> {};

TEST_P(Im2colTest, CopiesWindowsAndAddsThemBack) {
  const ColumnGeometry g = GeometryOf(GetParam());
  RandomSequence random(3);
  std::vector<double> image(static_cast<size_t>(g.channels * g.in_size()));
  for (double& value : image) value = random.NextGaussian();
  std::vector<double> columns(static_cast<size_t>(g.rows() * g.out_size()), 99);
  std::vector<double> expected(columns.size()), sums(image.size(), 0), back(image.size(), 99);
  std::vector<double> weights(columns.size());
  for (double& value : weights) value = random.NextGaussian();
  size_t i = 0;
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t k = 0; k < g.kernel_size(); ++k) {
      for (int64_t w = 0; w < g.out_size(); ++w, ++i) {
        const int64_t at = Covered(g, c, k, w);
        expected[i] = at < 0 ? 0 : image[static_cast<size_t>(at)];
        if (at >= 0) sums[static_cast<size_t>(at)] += weights[i];
      }
    }
  }
  for (const int threads : {1, 3}) {
    Stream stream(CpuDevice(), threads);
    Im2col(stream, g, image.data(), columns.data());
    EXPECT_EQ(columns, expected);
    Col2im(stream, g, weights.data(), back.data());
    for (size_t j = 0; j < back.size(); ++j) EXPECT_NEAR(back[j], sums[j], 1e-12);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, Im2colTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Im2col, SeesThatOneByOneWindowsAreTheImageItself) {
  EXPECT_TRUE(GeometryOf({"", 3, {4, 4}, {1, 1}, {1, 1}, {0, 0}, {5, 5}}).is_identity());
  EXPECT_FALSE(GeometryOf({"", 3, {4, 4}, {1, 1}, {2, 1}, {0, 0}, {1, 1}}).is_identity());
  EXPECT_FALSE(GeometryOf({"", 3, {4, 4}, {1, 1}, {1, 1}, {0, 1}, {1, 1}}).is_identity());
  EXPECT_FALSE(GeometryOf({"", 3, {4, 4}, {1, 2}, {1, 1}, {0, 0}, {1, 1}}).is_identity());
}

}  // namespace
}  // namespace carafe
