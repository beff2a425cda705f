// Depthwise convolution of small planes on a CPU, by way of scratch memory that holds one plane
// with its padding: its rows then follow each other without a border to mind, so that the sums of
// all windows run in one long loop. Included by depthwise.cpp alone.
#pragma once

#include <cstdint>

#include "carafe/base/host_device.h"
#include "carafe/kernels/depthwise.h"

namespace carafe::depthwise {

constexpr int64_t kScratch = 4096;  // elements of a padded plane, at most

// A plane (height, width) with pad_h rows and pad_w columns of zeros around it.
struct Padded {
  int64_t height, width, pad_h, pad_w;
  CARAFE_HD int64_t rows() const { return height + 2 * pad_h; }
  CARAFE_HD int64_t step() const { return width + 2 * pad_w; }
  CARAFE_HD bool fits() const {
    return pad_h >= 0 && pad_w >= 0 && rows() <= kScratch && step() <= kScratch &&
           rows() * step() <= kScratch;
  }
  template <typename T>
  CARAFE_HD void Fill(const T* plane, T* scratch) const {
    const int64_t n = rows() * step();
    for (int64_t i = 0; i < n; ++i) scratch[i] = 0;
    for (int64_t h = 0; h < height; ++h) {
      T* row = scratch + (h + pad_h) * step() + pad_w;
      for (int64_t w = 0; w < width; ++w) row[w] = plane[h * width + w];
    }
  }
};

// Where the weights of a window reach, in a padded plane with rows `step` apart.
struct Taps {
  int64_t kernel_h, kernel_w, down, right;  // down, right: from one weight to the next
};

// out[i] = sum over the window of w in[i + ..]; `order` is 1, or -1 for weights from last to first.
template <typename T>
CARAFE_HD inline void Correlate(const Taps& t, const T* w, int64_t order, const T* in, int64_t n,
                                T* out) {
  if (t.kernel_h == 3 && t.kernel_w == 3) {
    const T a0 = w[0], a1 = w[order], a2 = w[2 * order], b0 = w[3 * order], b1 = w[4 * order],
            b2 = w[5 * order], c0 = w[6 * order], c1 = w[7 * order], c2 = w[8 * order];
    const T *a = in, *b = in + t.down, *c = in + 2 * t.down;
    const int64_t r = t.right;
    for (int64_t i = 0; i < n; ++i) {
      out[i] = (a0 * a[i] + a1 * a[i + r] + a2 * a[i + 2 * r]) +
               (b0 * b[i] + b1 * b[i + r] + b2 * b[i + 2 * r]) +
               (c0 * c[i] + c1 * c[i + r] + c2 * c[i + 2 * r]);
    }
    return;
  }
  for (int64_t k = 0; k < t.kernel_h * t.kernel_w; ++k) {
    const T weight = w[k * order];
    const T* tap = in + k / t.kernel_w * t.down + k % t.kernel_w * t.right;
    if (k == 0) {
      for (int64_t i = 0; i < n; ++i) out[i] = weight * tap[i];
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] += weight * tap[i];
    }
  }
}

// One plane of y.
template <typename T>
struct ApplyPlaneOp {
  DepthwiseGeometry g;
  const T *weights, *x;
  T* y;
  CARAFE_HD void operator()(int64_t plane) const {
    T scratch[kScratch], sums[kScratch];
    const int64_t features = g.channels * g.multiplier, feature = plane % features;
    const Padded p{g.height, g.width, g.pad_h, g.pad_w};
    const int64_t channel = plane / features * g.channels + feature / g.multiplier;
    p.Fill(x + channel * g.height * g.width, scratch);
    const Taps taps{g.kernel_h, g.kernel_w, g.dilation_h * p.step(), g.dilation_w};
    const T* w = weights + feature * g.kernel_h * g.kernel_w;
    T* out = y + plane * g.out_height * g.out_width;
    if (g.stride_h == 1 && g.stride_w == 1) {
      Correlate(taps, w, 1, scratch, (g.out_height - 1) * p.step() + g.out_width, sums);
      for (int64_t h = 0; h < g.out_height; ++h) {
        for (int64_t o = 0; o < g.out_width; ++o) out[h * g.out_width + o] = sums[h * p.step() + o];
      }
      return;
    }
    for (int64_t h = 0; h < g.out_height; ++h) {  // columns between the strides are computed, too
      Correlate(taps, w, 1, scratch + h * g.stride_h * p.step(), (g.out_width - 1) * g.stride_w + 1,
                sums);
      for (int64_t o = 0; o < g.out_width; ++o) out[h * g.out_width + o] = sums[o * g.stride_w];
    }
  }
};

// y's planes with the padding that makes x = W^T y, at stride 1, a correlation with the weights
// from last to first.
inline CARAFE_HD Padded TransposedPadding(const DepthwiseGeometry& g) {
  return {g.out_height, g.out_width, (g.kernel_h - 1) * g.dilation_h - g.pad_h,
          (g.kernel_w - 1) * g.dilation_w - g.pad_w};
}

// One plane of x; stride 1.
template <typename T>
struct TransposedPlaneOp {
  DepthwiseGeometry g;
  const T *weights, *y;
  T* x;
  CARAFE_HD void operator()(int64_t plane) const {
    T scratch[kScratch], sums[kScratch];
    const Padded p = TransposedPadding(g);
    const Taps taps{g.kernel_h, g.kernel_w, g.dilation_h * p.step(), g.dilation_w};
    const int64_t area = g.kernel_h * g.kernel_w;
    T* out = x + plane * g.height * g.width;
    for (int64_t m = 0; m < g.multiplier; ++m) {
      p.Fill(y + (plane * g.multiplier + m) * g.out_height * g.out_width, scratch);
      const T* w = weights + (plane % g.channels * g.multiplier + m) * area;
      Correlate(taps, w + area - 1, -1, scratch, (g.height - 1) * p.step() + g.width, sums);
      for (int64_t h = 0; h < g.height; ++h) {
        for (int64_t o = 0; o < g.width; ++o) {
          const T sum = sums[h * p.step() + o];
          out[h * g.width + o] = m == 0 ? sum : out[h * g.width + o] + sum;
        }
      }
    }
  }
};

// The weights of one feature over all images; stride 1. y's rows are spread to the step of x's,
// with zeros between them, so that each weight's gradient is one long product.
template <typename T>
struct WeightGradientPlaneOp {
  static constexpr int kLanes = 8;
  DepthwiseGeometry g;
  const T *x, *y;
  T* dw;
  CARAFE_HD void operator()(int64_t feature) const {
    T in[kScratch], out[kScratch];
    const Padded p{g.height, g.width, g.pad_h, g.pad_w};
    const int64_t n = (g.out_height - 1) * p.step() + g.out_width, area = g.kernel_h * g.kernel_w;
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
    for (int64_t image = 0; image < g.images; ++image) {
      p.Fill(x + (image * g.channels + feature / g.multiplier) * g.height * g.width, in);
      const T* plane =
          y + (image * g.channels * g.multiplier + feature) * g.out_height * g.out_width;
      for (int64_t h = 0; h < g.out_height; ++h) {
        for (int64_t o = 0; o < g.out_width; ++o)
          out[h * p.step() + o] = plane[h * g.out_width + o];
      }
      for (int64_t kh = 0; kh < g.kernel_h; ++kh) {
        const T* row = in + kh * g.dilation_h * p.step();
        T* sums = dw + feature * area + kh * g.kernel_w;
        for (int64_t kw = 0; kw < g.kernel_w; ++kw) {
          AddProduct(n, out, row + kw * g.dilation_w, sums + kw);
        }
      }
    }
  }
  CARAFE_HD static void AddProduct(int64_t n, const T* a, const T* b, T* sum) {
    T lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
    }
    for (; i < n; ++i) lanes[0] += a[i] * b[i];
    *sum += Total(lanes);
  }
  CARAFE_HD static T Total(const T* lanes) {
    T sum = 0;
    for (int l = 0; l < kLanes; ++l) sum += lanes[l];
    return sum;
  }
};

}  // namespace carafe::depthwise
