// All kinds of tiles and directions against the definition of a convolution, in double.
#include "carafe/kernels/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/kernels/winograd_tiles.h"

namespace carafe {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

ConvolutionShape ShapeOf(int64_t images, int64_t groups, int64_t in, int64_t out, int64_t h,
                         int64_t w, int64_t pad_h, int64_t pad_w, WinogradTile tile) {
  const bool larger = tile == WinogradTile::kF2x2_5x5 || tile == WinogradTile::kF4x4_5x5;
  const int64_t kernel = larger ? 5 : 3;
  ConvolutionShape s{.images = images, .groups = groups, .in_channels = in, .out_channels = out};
  s.in_h = h;
  s.in_w = w;
  s.kernel_h = s.kernel_w = kernel;
  s.pad_h = pad_h;
  s.pad_w = pad_w;
  s.out_h = h + 2 * pad_h - kernel + 1;
  s.out_w = w + 2 * pad_w - kernel + 1;
  return s;
}

Floats Random(int64_t count, uint64_t seed) {
  RandomSequence random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.NextGaussian());
  return values;
}

// (images, channels, pixels) <-> (images, blocks, pixels, 8)
Floats Blocked(const Floats& plain, int64_t images, int64_t channels, int64_t pixels) {
  const int64_t blocks = (channels + 7) / 8;
  Floats blocked(static_cast<size_t>(images * blocks * pixels * 8), 0);
  for (int64_t i = 0; i < static_cast<int64_t>(plain.size()); ++i) {
    const int64_t n = i / pixels / channels, c = i / pixels % channels, p = i % pixels;
    blocked[static_cast<size_t>(((n * blocks + c / 8) * pixels + p) * 8 + c % 8)] =
        plain[static_cast<size_t>(i)];
  }
  return blocked;
}
Floats Plain(const Floats& blocked, int64_t images, int64_t channels, int64_t pixels) {
  const int64_t blocks = (channels + 7) / 8;
  Floats plain(static_cast<size_t>(images * channels * pixels));
  for (int64_t i = 0; i < static_cast<int64_t>(blocked.size()); ++i) {
    const int64_t n = i / 8 / pixels / blocks, p = i / 8 % pixels;
    const int64_t c = i / 8 / pixels % blocks * 8 + i % 8;
    if (c < channels) {
      plain[static_cast<size_t>((n * channels + c) * pixels + p)] = blocked[static_cast<size_t>(i)];
    } else {
      EXPECT_EQ(blocked[static_cast<size_t>(i)], 0) << "padding channel " << c;
    }
  }
  return plain;
}

// Calls f(index in src, in weights, in dst) for every product of the convolution.
template <typename F>
void ForEachProduct(const ConvolutionShape& s, const F& f) {
  const int64_t ins = s.group_in_channels(), outs = s.group_out_channels();
  for (int64_t n = 0; n < s.images; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t i = 0; i < ins; ++i) {
        const int64_t c = o / outs * ins + i;
        for (int64_t ky = 0; ky < s.kernel_h; ++ky) {
          for (int64_t kx = 0; kx < s.kernel_w; ++kx) {
            const int64_t w = ((o * ins + i) * s.kernel_h + ky) * s.kernel_w + kx;
            for (int64_t y = 0; y < s.out_h; ++y) {
              const int64_t sy = y + ky - s.pad_h;
              if (sy < 0 || sy >= s.in_h) continue;
              for (int64_t x = 0; x < s.out_w; ++x) {
                const int64_t sx = x + kx - s.pad_w;
                if (sx < 0 || sx >= s.in_w) continue;
                f(static_cast<size_t>(((n * s.in_channels + c) * s.in_h + sy) * s.in_w + sx),
                  static_cast<size_t>(w),
                  static_cast<size_t>(((n * s.out_channels + o) * s.out_h + y) * s.out_w + x));
              }
            }
          }
        }
      }
    }
  }
}

// The largest difference, as a share of the largest value.
double Error(const Floats& actual, const Doubles& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, largest = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = std::abs(actual[i] - expected[i]);
    difference = std::isfinite(d) ? std::max(difference, d) : HUGE_VAL;
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

struct Problem {
  explicit Problem(const ConvolutionShape& shape)
      : s(shape),
        src(Random(s.images * s.in_channels * s.in_h * s.in_w, 1)),
        weights(Random(s.weight_count(), 2)),
        bias(Random(s.out_channels, 3)),
        d_dst(Random(s.images * s.out_channels * s.out_h * s.out_w, 4)),
        d_weights(Random(s.weight_count(), 5)) {}
  const ConvolutionShape s;
  const Floats src, weights, bias, d_dst;
  const Floats d_weights;  // before something is added
};

struct Results {
  Floats dst, relu, no_bias, d_src, d_weights;
  bool operator==(const Results&) const = default;
};

// Scratch and results hold what is not a number before, so that nothing unwritten can be right.
Results Solve(const Problem& p, WinogradTile tile, int threads) {
  const ConvolutionShape& s = p.s;
  const WinogradConvolution convolution(s, tile);
  const float nan = std::nanf("");
  const size_t scratch_floats = convolution.ScratchBytes(threads) / sizeof(float);
  Floats storage(scratch_floats + 32, nan);
  float* scratch = storage.data();
  while (reinterpret_cast<uintptr_t>(scratch) % 64 != 0) ++scratch;
  float* end = scratch + scratch_floats;
  std::fill(end, storage.data() + storage.size(), 7.0f);

  const Floats src = Blocked(p.src, s.images, s.in_channels, s.in_h * s.in_w);
  const Floats d_dst = Blocked(p.d_dst, s.images, s.out_channels, s.out_h * s.out_w);
  const auto forward = [&](const float* bias, bool relu) {
    Floats dst(d_dst.size(), nan);
    convolution.Forward(threads, src.data(), p.weights.data(), bias, relu, dst.data(), scratch);
    return Plain(dst, s.images, s.out_channels, s.out_h * s.out_w);
  };
  Results results;
  results.dst = forward(p.bias.data(), false);
  results.relu = forward(p.bias.data(), true);
  results.no_bias = forward(nullptr, false);
  Floats d_src(src.size(), nan);
  convolution.BackwardData(threads, d_dst.data(), p.weights.data(), d_src.data(), scratch);
  results.d_src = Plain(d_src, s.images, s.in_channels, s.in_h * s.in_w);
  results.d_weights = p.d_weights;
  convolution.BackwardWeights(threads, src.data(), d_dst.data(), results.d_weights.data(), scratch);
  for (; end != storage.data() + storage.size(); ++end) EXPECT_EQ(*end, 7.0f) << "past the scratch";
  return results;
}

void ExpectClose(const Problem& p, const Results& results, double bound) {
  const ConvolutionShape& s = p.s;
  Doubles dst(p.d_dst.size(), 0), d_src(p.src.size(), 0);
  Doubles d_weights(p.d_weights.begin(), p.d_weights.end());
  ForEachProduct(s, [&](size_t i, size_t w, size_t o) {
    dst[o] += double{p.src[i]} * p.weights[w];
    d_src[i] += double{p.d_dst[o]} * p.weights[w];
    d_weights[w] += double{p.d_dst[o]} * p.src[i];
  });
  EXPECT_LT(Error(results.no_bias, dst), bound);
  Doubles relu(dst.size());
  for (size_t i = 0; i < dst.size(); ++i) {
    dst[i] +=
        p.bias[i / static_cast<size_t>(s.out_h * s.out_w) % static_cast<size_t>(s.out_channels)];
    relu[i] = std::max(0.0, dst[i]);
  }
  EXPECT_LT(Error(results.dst, dst), bound);
  EXPECT_LT(Error(results.relu, relu), bound);
  EXPECT_LT(Error(results.d_src, d_src), bound);
  EXPECT_LT(Error(results.d_weights, d_weights), bound);
}

struct TileCase {
  const char* name;
  WinogradTile tile;
  double bound;  // error / largest value: docs/decisions/0030-winograd.md
};
const TileCase kTiles[] = {
    {"F4x4Of3x3", WinogradTile::kF4x4_3x3, 8e-6},
    {"F2x2Of3x3", WinogradTile::kF2x2_3x3, 1.5e-6},
    {"F2x2Of5x5", WinogradTile::kF2x2_5x5, 8e-6},
    {"F4x4Of5x5", WinogradTile::kF4x4_5x5, 2e-5},
};

class WinogradTest : public ::testing::TestWithParam<TileCase> {
 protected:
  ConvolutionShape Shape(int64_t images, int64_t groups, int64_t in, int64_t out, int64_t h,
                         int64_t w, int64_t pad_h, int64_t pad_w) const {
    return ShapeOf(images, groups, in, out, h, w, pad_h, pad_w, GetParam().tile);
  }
  void Check(const ConvolutionShape& s) const {
    SCOPED_TRACE(::testing::Message() << s.in_channels << "->" << s.out_channels << ", " << s.groups
                                      << " groups, " << s.images << "x" << s.in_h << "x" << s.in_w
                                      << ", pad " << s.pad_h << " " << s.pad_w);
    ASSERT_TRUE(WinogradConvolution::Supports(s, GetParam().tile));
    const Problem problem(s);
    const Results one = Solve(problem, GetParam().tile, 1);
    ExpectClose(problem, one, GetParam().bound);
    EXPECT_TRUE(Solve(problem, GetParam().tile, 3) == one) << "3 threads change the result";
  }
};

TEST_P(WinogradTest, TakesAnyNumberOfChannels) {
  for (const int64_t in : {1, 3, 8, 20, 33}) {
    for (const int64_t out : {1, 3, 8, 20, 33}) Check(Shape(2, 1, in, out, 9, 10, 1, 1));
  }
}

TEST_P(WinogradTest, TakesAnySizeAndBorder) {
  for (const int64_t h : {5, 6, 7, 8, 13}) {
    for (const int64_t w : {5, 10, 11, 12}) {
      for (const int64_t pad : {0, 1, 2, 5}) Check(Shape(1, 1, 5, 9, h, w, pad, 2));
    }
  }
  for (const int64_t size : {1, 2, 3}) Check(Shape(3, 1, 4, 4, size, size, 2, 2));
}

TEST_P(WinogradTest, TakesGroups) {
  Check(Shape(2, 2, 16, 16, 7, 6, 1, 1));
  Check(Shape(1, 3, 72, 24, 9, 9, 0, 2));
  Check(Shape(1, 2, 48, 80, 5, 14, 2, 1));
}

// Blocks of tiles and the rests of blocks; many channels in one block of tiles; groups in both.
TEST_P(WinogradTest, TakesManyTilesAndManyChannels) {
  Check(Shape(1, 1, 8, 16, 74, 75, 1, 1));
  Check(Shape(5, 1, 70, 17, 15, 15, 1, 1));
  Check(Shape(3, 1, 168, 40, 7, 7, 2, 2));
  Check(Shape(3, 2, 336, 48, 6, 7, 1, 1));
  Check(Shape(1, 1, 24, 264, 8, 8, 1, 1));
  Check(Shape(2, 2, 32, 16, 39, 38, 1, 1));
}

// Backward to the data goes by the tiles of the smaller output.
TEST_P(WinogradTest, TakesOutputsThatAreSmallerThanTheirInputs) {
  Check(Shape(5, 1, 20, 50, 9, 8, 0, 0));
  Check(Shape(4, 2, 16, 48, 7, 7, 0, 0));
  Check(Shape(6, 1, 33, 9, 8, 7, 1, 0));
  Check(Shape(9, 1, 4, 70, 5, 6, 0, 0));
}

TEST_P(WinogradTest, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const ConvolutionShape& s :
       {Shape(2, 1, 33, 100, 30, 31, 1, 1), Shape(1, 1, 176, 64, 14, 14, 1, 1)}) {
    const Problem problem(s);
    const Results one = Solve(problem, GetParam().tile, 1);
    for (const int threads : {2, 5}) {
      EXPECT_TRUE(Solve(problem, GetParam().tile, threads) == one) << threads << " threads";
    }
  }
}

TEST_P(WinogradTest, CountsTheTapsOfAConstantImage) {
  // A constant image and a constant filter: r * r * channels in the middle.
  const ConvolutionShape s = Shape(1, 1, 8, 8, 16, 16, 2, 2);
  const WinogradConvolution convolution(s, GetParam().tile);
  const Floats src(8 * 16 * 16, 1), weights(static_cast<size_t>(s.weight_count()), 1);
  Floats dst(static_cast<size_t>(8 * s.out_h * s.out_w));
  Floats scratch(convolution.ScratchBytes(1) / sizeof(float));
  convolution.Forward(1, src.data(), weights.data(), nullptr, false, dst.data(), scratch.data());
  const size_t middle = static_cast<size_t>((s.out_h / 2 * s.out_w + s.out_w / 2) * 8);
  EXPECT_NEAR(dst[middle], static_cast<float>(8 * s.kernel_h * s.kernel_w), 1e-3);
}

TEST_P(WinogradTest, KeepsNotANumberUnderRelu) {
  const ConvolutionShape s = Shape(1, 1, 8, 8, 8, 8, 1, 1);
  const WinogradConvolution convolution(s, GetParam().tile);
  const Floats src(8 * 8 * 8, std::nanf("")), weights(static_cast<size_t>(s.weight_count()), 1);
  Floats dst(static_cast<size_t>(8 * s.out_h * s.out_w), 0);
  Floats scratch(convolution.ScratchBytes(1) / sizeof(float));
  convolution.Forward(1, src.data(), weights.data(), nullptr, true, dst.data(), scratch.data());
  EXPECT_TRUE(std::isnan(dst[0]));
}

TEST_P(WinogradTest, RefusesWhatItCannotDo) {
  const WinogradTile tile = GetParam().tile;
  const ConvolutionShape good = Shape(1, 2, 16, 16, 9, 9, 1, 1);
  EXPECT_TRUE(WinogradConvolution::Supports(good, tile));
  ConvolutionShape s = good;
  s.stride_w = 2;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile));
  s = good;
  s.dilation_h = 2;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile));
  s = good;
  s.kernel_w = 4;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile));
  s = good;
  s.out_h -= 1;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile));
  s = good;
  s.groups = 4;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile)) << "groups of 4 channels";
  s = good;
  s.images = 0;
  EXPECT_FALSE(WinogradConvolution::Supports(s, tile));
  EXPECT_THROW(WinogradConvolution(s, tile), InternalError);
}

INSTANTIATE_TEST_SUITE_P(Kernels, WinogradTest, ::testing::ValuesIn(kTiles),
                         [](const auto& info) { return info.param.name; });

// The gradient of the weights over `images`, of which `src` and `d_dst` hold all.
Floats WeightGradient(ConvolutionShape s, WinogradTile tile, const std::vector<int64_t>& images,
                      const Floats& src, const Floats& d_dst) {
  const auto part = [&](const Floats& all) {
    const int64_t size = static_cast<int64_t>(all.size()) / s.images;
    Floats some;
    for (const int64_t n : images) {
      some.insert(some.end(), all.begin() + n * size, all.begin() + (n + 1) * size);
    }
    return some;
  };
  const Floats x = part(src), dy = part(d_dst);
  s.images = static_cast<int64_t>(images.size());
  const WinogradConvolution convolution(s, tile);
  Floats d_weights(static_cast<size_t>(s.weight_count()));
  std::vector<double> scratch(convolution.ScratchBytes(1) / sizeof(double) + 16);
  void* aligned = scratch.data();
  size_t space = scratch.size() * sizeof(double);
  std::align(64, convolution.ScratchBytes(1), aligned, space);
  convolution.BackwardWeights(1, x.data(), dy.data(), d_weights.data(), aligned);
  return d_weights;
}

// Rounding of sums over tiles is all that differs; G^T .. G magnifies it. Direct sums of these
// sizes differ by 1.6e-6 of the root mean square.
TEST(Winograd, WeightGradientsOfWorkersAddUpToThatOfOne) {
  const std::pair<WinogradTile, double> bounds[] = {{WinogradTile::kF4x4_3x3, 6e-7},
                                                    {WinogradTile::kF4x4_5x5, 2.4e-6}};
  for (const auto& [tile, bound] : bounds) {
    const int64_t pad = tile == WinogradTile::kF4x4_5x5 ? 2 : 1;
    const ConvolutionShape s = ShapeOf(20, 1, 8, 24, 28, 28, pad, pad, tile);
    const Floats src = Random(s.images * 8 * 28 * 28, 1),
                 d_dst = Random(s.images * 24 * 28 * 28, 2);
    std::vector<std::vector<int64_t>> shares(5);  // all images, then those of four workers
    for (int64_t n = 0; n < s.images; ++n) {
      shares[0].push_back(n);
      shares[static_cast<size_t>(n % 4 + 1)].push_back(n);
    }
    std::vector<Floats> gradients;
    for (const std::vector<int64_t>& share : shares) {
      gradients.push_back(WeightGradient(s, tile, share, src, d_dst));
    }
    double difference = 0, squares = 0;
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      const float sum = (gradients[1][i] + gradients[2][i]) + (gradients[3][i] + gradients[4][i]);
      difference += std::pow(double{gradients[0][i]} - double{sum}, 2);
      squares += std::pow(double{gradients[0][i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference / squares), bound) << "3x3 or 5x5, padded by " << pad;
  }
}

TEST(WinogradTiles, CoverEveryOutputOnceAndTileSizesFollowTheRest) {
  const winograd::Tiling tiling(2, 14, 7, 4, 3);  // 4 + 4 + 4 + 2 and 4 + 3
  ASSERT_EQ(tiling.count(), 2 * 4 * 2);
  std::vector<winograd::Tile> storage(16);
  const winograd::TileBlock block = tiling.Block(0, 16, storage.data());
  std::vector<int> covered(2 * 14 * 7, 0);
  for (const winograd::TileRun& run : block.runs) {
    for (int64_t t = run.first; t < run.first + run.count; ++t) {
      for (int y = 0; y < run.rows; ++y) {
        for (int x = 0; x < run.cols; ++x) {
          const winograd::Tile& tile = block.tiles[t];
          ++covered[static_cast<size_t>((tile.image * 14 + tile.y + y) * 7 + tile.x + x)];
        }
      }
    }
  }
  EXPECT_EQ(covered, std::vector<int>(2 * 14 * 7, 1));
  // 22 x 11 instead of 24 x 12 products per image.
  int64_t products = 0;
  for (int row = 0; row < 6; ++row) {
    for (int col = 0; col < 6; ++col) {
      const auto [first, last] = tiling.WithPoint(block, row, col);
      products += last - first;
    }
  }
  EXPECT_EQ(products, 2 * 22 * 11);
}

}  // namespace
}  // namespace carafe
