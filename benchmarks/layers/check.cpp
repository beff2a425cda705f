#include "benchmarks/layers/check.h"

#include <algorithm>
#include <cmath>

#include "carafe/base/random.h"

namespace carafe::benchmark {
namespace {

struct Images {
  int64_t channels, h, w;
  // 0 outside of the image
  double At(const float* data, int64_t n, int64_t c, int64_t y, int64_t x) const {
    if (y < 0 || y >= h || x < 0 || x >= w) return 0;
    return data[(((n * channels / 8 + c / 8) * h + y) * w + x) * 8 + c % 8];
  }
};

class Comparison {
 public:
  void Add(double actual, double expected) {
    const double difference = std::abs(actual - expected);
    difference_ = std::isfinite(difference) ? std::max(difference_, difference) : HUGE_VAL;
    largest_ = std::max(largest_, std::abs(expected));
  }
  double error() const { return difference_ / largest_; }

 private:
  double difference_ = 0, largest_ = 1e-30;
};

constexpr int kSamples = 400;

}  // namespace

Errors Check(const ConvolutionShape& s, const float* src, const float* weights, const float* d_dst,
             const float* dst, const float* d_src, const float* d_weights) {
  const Images in{s.in_channels, s.in_h, s.in_w}, out{s.out_channels, s.out_h, s.out_w};
  const int64_t ins = s.group_in_channels(), outs = s.group_out_channels();
  const int64_t taps = s.kernel_h * s.kernel_w;
  RandomSequence random(11);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.NextBelow(static_cast<uint64_t>(n)));
  };
  Comparison forward, data, gradient;
  for (int sample = 0; sample < kSamples; ++sample) {
    const int64_t n = below(s.images), o = below(s.out_channels), c = below(s.in_channels);
    const int64_t y = below(s.out_h), x = below(s.out_w), sy = below(s.in_h), sx = below(s.in_w);
    double sum = 0;
    for (int64_t i = 0; i < ins; ++i) {
      for (int64_t k = 0; k < taps; ++k) {
        sum += weights[(o * ins + i) * taps + k] * in.At(src, n, o / outs * ins + i,
                                                         y + k / s.kernel_w - s.pad_h,
                                                         x + k % s.kernel_w - s.pad_w);
      }
    }
    forward.Add(out.At(dst, n, o, y, x), sum);
    sum = 0;
    const int64_t group = c / ins;
    for (int64_t i = group * outs; i < (group + 1) * outs; ++i) {
      for (int64_t k = 0; k < taps; ++k) {
        sum += weights[(i * ins + c % ins) * taps + k] *
               out.At(d_dst, n, i, sy - k / s.kernel_w + s.pad_h, sx - k % s.kernel_w + s.pad_w);
      }
    }
    data.Add(in.At(d_src, n, c, sy, sx), sum);
    if (sample % 8 != 0) continue;
    sum = 0;
    const int64_t i = below(ins), k = below(taps);
    for (int64_t p = 0; p < s.images * s.out_h * s.out_w; ++p) {
      const int64_t image = p / s.out_w / s.out_h, py = p / s.out_w % s.out_h, px = p % s.out_w;
      sum += out.At(d_dst, image, o, py, px) * in.At(src, image, o / outs * ins + i,
                                                     py + k / s.kernel_w - s.pad_h,
                                                     px + k % s.kernel_w - s.pad_w);
    }
    gradient.Add(d_weights[(o * ins + i) * taps + k], sum);
  }
  return {forward.error(), data.error(), gradient.error()};
}

}  // namespace carafe::benchmark
