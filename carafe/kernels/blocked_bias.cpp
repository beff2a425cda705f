#include "carafe/kernels/blocked_bias.h"

#include <algorithm>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

constexpr int64_t kB = kBlockChannels;

struct Relu {
  int64_t size;
  float* y;
  CARAFE_HD void operator()(int64_t block) const {
    float* at = y + block * size;
    for (int64_t i = 0; i < size; ++i) at[i] = at[i] < 0 ? 0 : at[i];
  }
};

// One block of channels of all images. Sums of a piece of 256 pixels are float, all else double.
struct ReluBias {
  BlockedGeometry g;
  const float* y;
  float *dy, *d_bias;

  CARAFE_HD void operator()(int64_t block) const {
    double sum[kB] = {};
    for (int64_t n = 0; n < g.images; ++n) {
      const int64_t at = (n * g.blocks() + block) * g.plane * kB;
      for (int64_t first = 0; first < g.plane; first += 256) {
        const int64_t pixels = g.plane - first < 256 ? g.plane - first : 256;
        float part[kB] = {};
        if (y == nullptr) {
          Add(pixels, dy + at + first * kB, part);
        } else {
          Mask(pixels, y + at + first * kB, dy + at + first * kB, part);
        }
        for (int64_t c = 0; c < kB; ++c) sum[c] += part[c];
      }
    }
    if (d_bias == nullptr) return;
    for (int64_t c = 0; c < kB && block * kB + c < g.channels; ++c) {
      d_bias[block * kB + c] += static_cast<float>(sum[c]);
    }
  }
  CARAFE_HD static void Add(int64_t pixels, const float* from, float* part) {
    for (int64_t s = 0; s < pixels; ++s) {
      for (int64_t c = 0; c < kB; ++c) part[c] += from[s * kB + c];
    }
  }
  CARAFE_HD static void Mask(int64_t pixels, const float* value, float* from, float* part) {
    for (int64_t s = 0; s < pixels; ++s) {
      for (int64_t c = 0; c < kB; ++c) {
        const float kept = value[s * kB + c] > 0 ? from[s * kB + c] : 0.0f;
        from[s * kB + c] = kept;
        part[c] += kept;
      }
    }
  }
};

}  // namespace

void BlockedRelu(Stream& stream, const BlockedGeometry& g, float* y) {
  ParallelFor(stream, g.images * g.blocks(), Relu{g.plane * kB, y}, g.plane * kB);
}

void BlockedReluBiasBackward(Stream& stream, const BlockedGeometry& g, const float* y, float* dy,
                             float* d_bias) {
  if (y == nullptr && d_bias == nullptr) return;
  ParallelFor(stream, g.blocks(), ReluBias{g, y, dy, d_bias}, g.images * g.plane * kB);
}

}  // namespace carafe
