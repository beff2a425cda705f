#include "carafe/kernels/winograd_gemm.h"

#include <algorithm>
#include <array>

#include "carafe/base/float8.h"

namespace carafe::winograd {
namespace {

// AVX2 has 16 registers: 6 x 2 sums, two vectors of u, one broadcast of v; or 12 x 1, 1 and 1.
constexpr int kMaxTiles[] = {12, 6};  // by blocks of out channels
// Products over tiles are summed in runs of at most so many tiles, as equal as they can be
// (measured: 64 cost nothing, 32 some 15 %).
constexpr int64_t kRunTiles = 64;

template <int kTiles, int kBlocks>
void FilterKernel(int64_t channels, const float* v, size_t v_stride, const float* u, float* m,
                  size_t m_stride) {
  Float8 sum[kTiles][kBlocks];
  Unroll<kTiles * kBlocks>(
      [&](auto i) CARAFE_INLINE_LAMBDA { sum[i / kBlocks][i % kBlocks] = All8(0.0f); });
  const auto step = [&](const float* v_k, const float* u_k) CARAFE_INLINE_LAMBDA {
    Float8 u_b[kBlocks];
    Unroll<kBlocks>([&](auto b) CARAFE_INLINE_LAMBDA { u_b[b] = Load8(u_k + b * kVector); });
    Unroll<kTiles>([&](auto t) CARAFE_INLINE_LAMBDA {
      const Float8 x = All8(v_k[t * kVector]);
      Unroll<kBlocks>([&](auto b)
                          CARAFE_INLINE_LAMBDA { sum[t][b] = MulAdd8(x, u_b[b], sum[t][b]); });
    });
  };
  for (; channels >= kVector; channels -= kVector) {
    Unroll<kVector>([&](auto k) CARAFE_INLINE_LAMBDA { step(v + k, u + k * kOutChannels); });
    v += v_stride;
    u += kVector * kOutChannels;
  }
  for (int64_t k = 0; k < channels; ++k) step(v + k, u + k * kOutChannels);
  Unroll<kTiles * kBlocks>([&](auto i) CARAFE_INLINE_LAMBDA {
    Store8(m + (i % kBlocks) * m_stride + i / kBlocks * kVector, sum[i / kBlocks][i % kBlocks]);
  });
}

using FilterFunction = decltype(&FilterKernel<1, 1>);
template <int kBlocks, int... t>
constexpr std::array<FilterFunction, sizeof...(t)> FilterKernels(std::integer_sequence<int, t...>) {
  return {FilterKernel<t + 1, kBlocks>...};
}
constexpr auto kHalfKernels = FilterKernels<1>(std::make_integer_sequence<int, kMaxTiles[0]>());
constexpr auto kFullKernels = FilterKernels<2>(std::make_integer_sequence<int, kMaxTiles[1]>());

template <int kIn, int kBlocks>
void TileKernel(int64_t tiles, const float* v, const float* z, size_t z_stride, float* d,
                size_t d_stride) {
  Float8 sum[kIn][kBlocks];
  const auto step = [&](const float* v_t, const float* z_t) CARAFE_INLINE_LAMBDA {
    Float8 z_b[kBlocks];
    Unroll<kBlocks>([&](auto b) CARAFE_INLINE_LAMBDA {
      z_b[b] = Load8(z_t + b * z_stride);
      Hold8(z_b[b]);
    });
    Unroll<kIn>([&](auto i) CARAFE_INLINE_LAMBDA {
      const Float8 x = All8(v_t[i]);
      Unroll<kBlocks>([&](auto b)
                          CARAFE_INLINE_LAMBDA { sum[i][b] = MulAdd8(x, z_b[b], sum[i][b]); });
    });
  };
  const int64_t runs = std::max<int64_t>((tiles + kRunTiles - 1) / kRunTiles, 1);
  for (int64_t run = 0; run < runs; ++run) {
    Unroll<kIn * kBlocks>([&](auto i)
                              CARAFE_INLINE_LAMBDA { sum[i / kBlocks][i % kBlocks] = All8(0.0f); });
    // One step per iteration: more would share registers that 12 sums and 4 operands already fill.
    const int64_t end = tiles * (run + 1) / runs;
    for (int64_t t = tiles * run / runs; t < end; ++t) step(v + t * kVector, z + t * kVector);
    Unroll<kIn * kBlocks>([&](auto i) CARAFE_INLINE_LAMBDA {
      float* to = d + (i / kBlocks) * d_stride + i % kBlocks * kVector;
      const Float8 part = sum[i / kBlocks][i % kBlocks];
      Store8(to, run == 0 ? part : part + Load8(to));
    });
  }
}

}  // namespace

void MultiplyFilters(int64_t tiles, int64_t channels, const float* v, size_t v_stride,
                     const float* u, int out_blocks, float* m, size_t m_stride) {
  const FilterFunction* kernels = out_blocks == 1 ? kHalfKernels.data() : kFullKernels.data();
  const int64_t most = kMaxTiles[out_blocks - 1];
  // Parts of nearly equal size: 8 tiles are 4 and 4, for 2 would wait for their own sums.
  for (int64_t parts = (tiles + most - 1) / most; parts > 0; --parts) {
    const int64_t part = tiles / parts;
    kernels[part - 1](channels, v, v_stride, u, m, m_stride);
    v += part * kVector;
    m += part * kVector;
    tiles -= part;
  }
}

void MultiplyOverTiles(int64_t tiles, const float* v, const float* z, size_t z_stride,
                       int out_blocks, float* d, size_t d_stride) {
  switch (out_blocks) {
    case 1:
      return TileKernel<4, 1>(tiles, v, z, z_stride, d, d_stride);
    case 2:
      return TileKernel<4, 2>(tiles, v, z, z_stride, d, d_stride);
    case 3:
      return TileKernel<4, 3>(tiles, v, z, z_stride, d, d_stride);
  }
}

}  // namespace carafe::winograd
