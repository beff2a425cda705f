#include "carafe/kernels/winograd_gemm.h"

#include "carafe/kernels/simd.h"

namespace carafe::winograd {
namespace {

// AVX2 has 16 registers: 6 x 2 sums, two vectors of u, one broadcast of v.
constexpr int kMaxTiles = 6;

template <int kTiles>
void FilterKernel(int64_t channels, const float* v, size_t v_stride, const float* u, float* m,
                  size_t m_stride) {
  Vec8 sum[kTiles][2];
  Unroll<kTiles>([&](auto t) CARAFE_INLINE_LAMBDA { sum[t][0] = sum[t][1] = Vec8::Broadcast(0); });
  const auto step = [&](const float* v_k, const float* u_k) CARAFE_INLINE_LAMBDA {
    const Vec8 u0 = Vec8::Load(u_k), u1 = Vec8::Load(u_k + kVector);
    Unroll<kTiles>([&](auto t) CARAFE_INLINE_LAMBDA {
      const Vec8 x = Vec8::Broadcast(v_k[t * kVector]);
      sum[t][0] = MulAdd(x, u0, sum[t][0]);
      sum[t][1] = MulAdd(x, u1, sum[t][1]);
    });
  };
  for (; channels >= kVector; channels -= kVector) {
    Unroll<kVector>([&](auto k) CARAFE_INLINE_LAMBDA { step(v + k, u + k * kOutChannels); });
    v += v_stride;
    u += kVector * kOutChannels;
  }
  for (int64_t k = 0; k < channels; ++k) step(v + k, u + k * kOutChannels);
  Unroll<kTiles>([&](auto t) CARAFE_INLINE_LAMBDA {
    sum[t][0].Store(m + t * kVector);
    sum[t][1].Store(m + m_stride + t * kVector);
  });
}

constexpr decltype(&FilterKernel<1>) kFilterKernels[kMaxTiles] = {FilterKernel<1>, FilterKernel<2>,
                                                                  FilterKernel<3>, FilterKernel<4>,
                                                                  FilterKernel<5>, FilterKernel<6>};

template <int kIn, int kBlocks>
void TileKernel(int64_t tiles, const float* v, const float* z, size_t z_stride, float* d,
                size_t d_stride) {
  Vec8 sum[kIn][kBlocks];
  Unroll<kIn * kBlocks>(
      [&](auto i) CARAFE_INLINE_LAMBDA { sum[i / kBlocks][i % kBlocks] = Vec8::Broadcast(0); });
  const auto step = [&](const float* v_t, const float* z_t) CARAFE_INLINE_LAMBDA {
    Vec8 z_b[kBlocks];
    Unroll<kBlocks>([&](auto b) CARAFE_INLINE_LAMBDA {
      z_b[b] = Vec8::Load(z_t + b * z_stride);
      Hold(z_b[b]);
    });
    Unroll<kIn>([&](auto i) CARAFE_INLINE_LAMBDA {
      const Vec8 x = Vec8::Broadcast(v_t[i]);
      Unroll<kBlocks>([&](auto b)
                          CARAFE_INLINE_LAMBDA { sum[i][b] = MulAdd(x, z_b[b], sum[i][b]); });
    });
  };
  // One step per turn: more steps would share registers that 12 sums and 4 operands already fill.
  for (int64_t t = 0; t < tiles; ++t) step(v + t * kVector, z + t * kVector);
  Unroll<kIn * kBlocks>([&](auto i) CARAFE_INLINE_LAMBDA {
    sum[i / kBlocks][i % kBlocks].Store(d + (i / kBlocks) * d_stride + i % kBlocks * kVector);
  });
}

}  // namespace

void MultiplyFilters(int64_t tiles, int64_t channels, const float* v, size_t v_stride,
                     const float* u, float* m, size_t m_stride) {
  // Parts of nearly equal size: 8 tiles are 4 and 4, for 2 would wait for their own sums.
  for (int64_t parts = (tiles + kMaxTiles - 1) / kMaxTiles; parts > 0; --parts) {
    const int64_t part = tiles / parts;
    kFilterKernels[part - 1](channels, v, v_stride, u, m, m_stride);
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
