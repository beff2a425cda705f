// dW[o][t] = sum over images and pixels of dst gradient[o][pixel] src[pixel of tap t], t counting
// channel, row and column of the window. Sums of 4 taps and 24 out channels (or 6 and 16)
// stay in registers while a band of rows that fits in the first-level cache goes by.
#include "carafe/kernels/cpu_few_channels.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "carafe/base/float8.h"

namespace carafe {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kMaxBlocks = 3;
constexpr int64_t kMaxTaps[] = {8, 6, 4};  // of 1 .. 3 blocks: 12 sums and 4 operands in registers
constexpr int64_t kBandFloats = 4096;      // gradients of a band of rows: half of the cache
constexpr int64_t kChunks = 16;            // images are summed in so many parts

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes of the padded source, of the sums, and where they lie in the scratch.
struct Plan {
  explicit Plan(const ConvolutionShape& s)
      : height(s.in_h + 2 * s.pad_h),
        width(s.in_w + 2 * s.pad_w),
        taps(s.in_channels * s.kernel_h * s.kernel_w),
        blocks(DivideUp(s.out_channels, kLanes)),
        chunks(std::min(kChunks, s.images)),
        padded(s.pad_h > 0 || s.pad_w > 0),
        sum_floats(taps * blocks * kLanes),
        image_floats(padded ? DivideUp(s.in_channels * height * width, 16) * 16 : 0),
        offset_floats(DivideUp(taps * 2, 16) * 16) {}
  int64_t total(int threads) const {
    return offset_floats + chunks * sum_floats + threads * image_floats;
  }
  const int64_t height, width, taps, blocks, chunks;
  const bool padded;
  const int64_t sum_floats, image_floats, offset_floats;
};

// Some rows of an image: x at the first window's first pixel, dy at the first output.
struct Band {
  int64_t rows, columns;
  const float* x;
  int64_t x_row, x_step;  // from an output to the next one: down, to the right
  const float* dy;
  int64_t dy_row, dy_block;
};

// sums[t][b] += over the band; rows of sums are sum_row floats apart.
template <int kTaps, int kBlocks>
void Accumulate(const Band& band, const int64_t* offsets, float* sums, int64_t sum_row) {
  Float8 sum[kTaps][kBlocks];
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 3
    for (int b = 0; b < kBlocks; ++b) sum[t][b] = Load8(sums + t * sum_row + b * kLanes);
  }
  for (int64_t row = 0; row < band.rows; ++row) {
    const float* x[kTaps];
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) x[t] = band.x + row * band.x_row + offsets[t];
    const float* dy = band.dy + row * band.dy_row;
    for (int64_t at = 0, end = band.columns * band.x_step; at < end; at += band.x_step) {
      Float8 d[kBlocks];
#pragma GCC unroll 3
      for (int b = 0; b < kBlocks; ++b) {
        d[b] = Load8(dy + b * band.dy_block);
        Hold8(d[b]);
      }
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) {
        const Float8 pixel = All8(x[t][at]);
#pragma GCC unroll 3
        for (int b = 0; b < kBlocks; ++b) sum[t][b] = MulAdd8(pixel, d[b], sum[t][b]);
      }
      dy += kLanes;
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 3
    for (int b = 0; b < kBlocks; ++b) Store8(sums + t * sum_row + b * kLanes, sum[t][b]);
  }
}

using Kernel = void (*)(const Band&, const int64_t*, float*, int64_t);
constexpr Kernel kKernels[kMaxBlocks][kMaxTaps[0]] = {
    {Accumulate<1, 1>, Accumulate<2, 1>, Accumulate<3, 1>, Accumulate<4, 1>, Accumulate<5, 1>,
     Accumulate<6, 1>, Accumulate<7, 1>, Accumulate<8, 1>},
    {Accumulate<1, 2>, Accumulate<2, 2>, Accumulate<3, 2>, Accumulate<4, 2>, Accumulate<5, 2>,
     Accumulate<6, 2>},
    {Accumulate<1, 3>, Accumulate<2, 3>, Accumulate<3, 3>, Accumulate<4, 3>}};

// Calls f(first, count) for parts of at most `most`, as equal as they can be.
template <typename F>
void ForParts(int64_t count, int64_t most, const F& f) {
  const int64_t parts = DivideUp(count, most);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = count * i / parts;
    f(first, count * (i + 1) / parts - first);
  }
}

void PadImage(const ConvolutionShape& s, const Plan& plan, const float* from, float* to) {
  std::memset(to, 0, static_cast<size_t>(plan.image_floats) * sizeof(float));
  for (int64_t row = 0; row < s.in_channels * s.in_h; ++row) {
    const int64_t y = row / s.in_h * plan.height + row % s.in_h + s.pad_h;
    std::copy_n(from + row * s.in_w, s.in_w, to + y * plan.width + s.pad_w);
  }
}

// One image: x is padded already.
void AddImage(const ConvolutionShape& s, const Plan& plan, const int64_t* offsets, const float* x,
              const float* dy, float* sums) {
  const int64_t plane = s.out_h * s.out_w * kLanes, sum_row = plan.blocks * kLanes;
  ForParts(plan.blocks, kMaxBlocks, [&](int64_t block, int64_t blocks) {
    const int64_t row_floats = s.out_w * kLanes * blocks;
    ForParts(s.out_h, std::max<int64_t>(1, kBandFloats / row_floats), [&](int64_t y, int64_t rows) {
      const Band band{.rows = rows,
                      .columns = s.out_w,
                      .x = x + y * s.stride_h * plan.width,
                      .x_row = s.stride_h * plan.width,
                      .x_step = s.stride_w,
                      .dy = dy + block * plane + y * s.out_w * kLanes,
                      .dy_row = s.out_w * kLanes,
                      .dy_block = plane};
      ForParts(plan.taps, kMaxTaps[blocks - 1], [&](int64_t tap, int64_t taps) {
        kKernels[blocks - 1][taps - 1](band, offsets + tap, sums + tap * sum_row + block * kLanes,
                                       sum_row);
      });
    });
  });
}

}  // namespace

bool FewChannelsSupports(const ConvolutionShape& s) {
  return s.groups == 1 && s.in_channels < kLanes && s.images > 0;
}

size_t FewChannelsScratchBytes(const ConvolutionShape& shape, int threads) {
  return static_cast<size_t>(Plan(shape).total(threads)) * sizeof(float);
}

void FewChannelsBackwardWeights([[maybe_unused]] int threads, const ConvolutionShape& s,
                                const float* src, const float* d_dst, float* d_weights,
                                void* scratch) {
  const Plan plan(s);
  auto* const offsets = static_cast<int64_t*>(scratch);
  float* const all_sums = static_cast<float*>(scratch) + plan.offset_floats;
  float* const all_images = all_sums + plan.chunks * plan.sum_floats;
  for (int64_t t = 0; t < plan.taps; ++t) {
    const int64_t window = s.kernel_h * s.kernel_w, c = t / window;
    const int64_t ky = t % window / s.kernel_w, kx = t % s.kernel_w;
    offsets[t] = (c * plan.height + ky * s.dilation_h) * plan.width + kx * s.dilation_w;
  }
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    float* const image = all_images + omp_get_thread_num() * plan.image_floats;
#pragma omp for schedule(static)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
      float* sums = all_sums + chunk * plan.sum_floats;
      std::memset(sums, 0, static_cast<size_t>(plan.sum_floats) * sizeof(float));
      for (int64_t n = s.images * chunk / plan.chunks; n < s.images * (chunk + 1) / plan.chunks;
           ++n) {
        const float* x = src + n * s.in_channels * s.in_h * s.in_w;
        if (plan.padded) PadImage(s, plan, x, image);
        AddImage(s, plan, offsets, plan.padded ? image : x,
                 d_dst + n * plan.blocks * s.out_h * s.out_w * kLanes, sums);
      }
    }
#pragma omp for schedule(static)
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t t = 0; t < plan.taps; ++t) {
        float sum = 0;
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
          sum += all_sums[chunk * plan.sum_floats + t * plan.blocks * kLanes + o];
        }
        d_weights[o * plan.taps + t] += sum;
      }
    }
  }
}

}  // namespace carafe
