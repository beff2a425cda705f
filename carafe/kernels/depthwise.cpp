#include "carafe/kernels/depthwise.h"

#include "carafe/kernels/depthwise_plane.h"
#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// The outputs o in [begin, end) whose input o * stride + shift lies in [0, size).
struct Range {
  int64_t begin, end;
  CARAFE_HD Range(int64_t shift, int64_t stride, int64_t size, int64_t outputs) {
    begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    end = shift >= size ? 0 : (size - 1 - shift) / stride + 1;
    if (end > outputs) end = outputs;
    if (begin > end) begin = end;
  }
};

// out[o] += sum over the row of weights of w[k] in[o * stride + k * dilation - pad]. `step` is 1,
// or -1 for weights in reverse order.
struct RowGeometry {
  int64_t outputs, size, kernel, stride, pad, dilation;
};
template <int kKernel, typename T>
CARAFE_HD inline void AddFixedRow(const RowGeometry& r, const T* w, int64_t step, const T* in,
                                  int64_t begin, int64_t end, T* out) {
  T weight[kKernel];
  for (int k = 0; k < kKernel; ++k) weight[k] = w[k * step];
  const T* first = in - r.pad;
  if (r.stride == 1 && r.dilation == 1) {
    for (int64_t o = begin; o < end; ++o) {
      T sum = 0;
      for (int k = 0; k < kKernel; ++k) sum += weight[k] * first[o + k];
      out[o] += sum;
    }
    return;
  }
  for (int64_t o = begin; o < end; ++o) {
    T sum = 0;
    for (int k = 0; k < kKernel; ++k) sum += weight[k] * first[o * r.stride + k * r.dilation];
    out[o] += sum;
  }
}
template <typename T>
CARAFE_HD inline void AddRow(const RowGeometry& r, const T* w, int64_t step, const T* in, T* out) {
  // Outputs whose windows lie wholly inside need no check of each weight.
  int64_t begin = 0, end = 0;
  if (r.kernel == 3 || r.kernel == 5) {
    begin = Range(-r.pad, r.stride, r.size, r.outputs).begin;
    end = Range((r.kernel - 1) * r.dilation - r.pad, r.stride, r.size, r.outputs).end;
    if (begin > end) begin = end;
    if (r.kernel == 3) {
      AddFixedRow<3>(r, w, step, in, begin, end, out);
    } else {
      AddFixedRow<5>(r, w, step, in, begin, end, out);
    }
  }
  for (int64_t k = 0; k < r.kernel; ++k) {
    const int64_t shift = k * r.dilation - r.pad;
    const Range all(shift, r.stride, r.size, r.outputs);
    const T weight = w[k * step];
    const int64_t left = begin < end && all.end > begin ? begin : all.end;
    for (int64_t o = all.begin; o < left; ++o) out[o] += weight * in[o * r.stride + shift];
    if (begin == end) continue;
    const int64_t right = all.begin > end ? all.begin : end;
    for (int64_t o = right; o < all.end; ++o) out[o] += weight * in[o * r.stride + shift];
  }
}

// One row of one feature.
template <typename T>
struct ApplyOp {
  DepthwiseGeometry g;
  const T *weights, *x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t oh = i % g.out_height, plane = i / g.out_height;
    const int64_t features = g.channels * g.multiplier;
    const int64_t feature = plane % features, image = plane / features;
    const T* in = x + (image * g.channels + feature / g.multiplier) * g.height * g.width;
    const T* w = weights + feature * g.kernel_h * g.kernel_w;
    T* out = y + i * g.out_width;
    for (int64_t o = 0; o < g.out_width; ++o) out[o] = 0;
    const RowGeometry row{g.out_width, g.width, g.kernel_w, g.stride_w, g.pad_w, g.dilation_w};
    for (int64_t k = 0; k < g.kernel_h; ++k) {
      const int64_t h = oh * g.stride_h - g.pad_h + k * g.dilation_h;
      if (h >= 0 && h < g.height) AddRow(row, w + k * g.kernel_w, 1, in + h * g.width, out);
    }
  }
};

// One row of one channel of x, for stride 1: the same sum with weights in reverse order and y
// padded by what the windows reach beyond x.
template <typename T>
struct GatherTransposedOp {
  DepthwiseGeometry g;
  const T *weights, *y;
  T* x;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t h = i % g.height, plane = i / g.height;
    const int64_t area = g.kernel_h * g.kernel_w, out_size = g.out_height * g.out_width;
    T* out = x + i * g.width;
    for (int64_t o = 0; o < g.width; ++o) out[o] = 0;
    const RowGeometry row{
        g.width,     g.out_width, g.kernel_w, 1, (g.kernel_w - 1) * g.dilation_w - g.pad_w,
        g.dilation_w};
    for (int64_t m = 0; m < g.multiplier; ++m) {
      const T* in = y + (plane * g.multiplier + m) * out_size;
      const T* w = weights + (plane % g.channels * g.multiplier + m) * area;
      for (int64_t k = 0; k < g.kernel_h; ++k) {
        const int64_t oh = h + g.pad_h - k * g.dilation_h;
        if (oh < 0 || oh >= g.out_height) continue;
        AddRow(row, w + (k + 1) * g.kernel_w - 1, -1, in + oh * g.out_width, out);
      }
    }
  }
};

// One plane of x, for any stride: every element of y adds its window.
template <typename T>
struct ScatterTransposedOp {
  DepthwiseGeometry g;
  const T *weights, *y;
  T* x;
  CARAFE_HD void operator()(int64_t plane) const {
    const int64_t area = g.kernel_h * g.kernel_w, out_size = g.out_height * g.out_width;
    T* out = x + plane * g.height * g.width;
    for (int64_t i = 0; i < g.height * g.width; ++i) out[i] = 0;
    for (int64_t m = 0; m < g.multiplier; ++m) {
      const T* in = y + (plane * g.multiplier + m) * out_size;
      const T* w = weights + (plane % g.channels * g.multiplier + m) * area;
      for (int64_t oh = 0; oh < g.out_height; ++oh) {
        for (int64_t k = 0; k < area; ++k) {
          const int64_t h = oh * g.stride_h - g.pad_h + k / g.kernel_w * g.dilation_h;
          if (h < 0 || h >= g.height) continue;
          const int64_t shift = k % g.kernel_w * g.dilation_w - g.pad_w;
          const Range columns(shift, g.stride_w, g.width, g.out_width);
          T* line = out + h * g.width + shift;
          const T* row = in + oh * g.out_width;
          const T weight = w[k];
          for (int64_t o = columns.begin; o < columns.end; ++o) {
            line[o * g.stride_w] += weight * row[o];
          }
        }
      }
    }
  }
};

// One feature: all of its weights over all images. Sums run in lanes, which vectorise without
// leave to reorder sums.
template <typename T>
struct WeightGradientOp {
  static constexpr int kLanes = 8;
  DepthwiseGeometry g;
  const T *x, *y;
  T* dw;
  CARAFE_HD void operator()(int64_t feature) const {
    const int64_t area = g.kernel_h * g.kernel_w;
    for (int64_t image = 0; image < g.images; ++image) {
      const T* in = x + (image * g.channels + feature / g.multiplier) * g.height * g.width;
      const T* out = y + (image * g.channels * g.multiplier + feature) * g.out_height * g.out_width;
      for (int64_t k = 0; k < area; ++k) {
        dw[feature * area + k] += Product(in, out, k / g.kernel_w, k % g.kernel_w);
      }
    }
  }
  CARAFE_HD T Product(const T* in, const T* out, int64_t kh, int64_t kw) const {
    const int64_t down = kh * g.dilation_h - g.pad_h, shift = kw * g.dilation_w - g.pad_w;
    const Range rows(down, g.stride_h, g.height, g.out_height);
    const Range columns(shift, g.stride_w, g.width, g.out_width);
    T lanes[kLanes] = {};
    for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const T* a = out + oh * g.out_width;
      const T* b = in + (oh * g.stride_h + down) * g.width + shift;
      int64_t o = columns.begin;
      if (g.stride_w == 1) {
        for (; o + kLanes <= columns.end; o += kLanes) {
          for (int l = 0; l < kLanes; ++l) lanes[l] += a[o + l] * b[o + l];
        }
      } else {
        for (; o + kLanes <= columns.end; o += kLanes) {
          for (int l = 0; l < kLanes; ++l) lanes[l] += a[o + l] * b[(o + l) * g.stride_w];
        }
      }
      for (; o < columns.end; ++o) lanes[0] += a[o] * b[o * g.stride_w];
    }
    T sum = 0;
    for (int l = 0; l < kLanes; ++l) sum += lanes[l];
    return sum;
  }
};

}  // namespace

template <typename T>
void DepthwiseApply(Stream& stream, const DepthwiseGeometry& g, const T* weights, const T* x,
                    T* y) {
  const int64_t planes = g.images * g.features();
  if (stream.on_cpu() && depthwise::Padded{g.height, g.width, g.pad_h, g.pad_w}.fits()) {
    ParallelFor(stream, planes, depthwise::ApplyPlaneOp<T>{g, weights, x, y},
                g.out_height * g.out_width * g.kernel_h * g.kernel_w);
    return;
  }
  ParallelFor(stream, planes * g.out_height, ApplyOp<T>{g, weights, x, y},
              g.out_width * g.kernel_h * g.kernel_w);
}
template <typename T>
void DepthwiseApplyTransposed(Stream& stream, const DepthwiseGeometry& g, const T* weights,
                              const T* y, T* x) {
  const int64_t planes = g.images * g.channels, area = g.kernel_h * g.kernel_w * g.multiplier;
  if (g.stride_h == 1 && g.stride_w == 1) {
    if (stream.on_cpu() && depthwise::TransposedPadding(g).fits()) {
      ParallelFor(stream, planes, depthwise::TransposedPlaneOp<T>{g, weights, y, x},
                  g.height * g.width * area);
      return;
    }
    ParallelFor(stream, planes * g.height, GatherTransposedOp<T>{g, weights, y, x}, g.width * area);
    return;
  }
  ParallelFor(stream, planes, ScatterTransposedOp<T>{g, weights, y, x},
              g.out_height * g.out_width * area);
}
template <typename T>
void DepthwiseAddWeightGradient(Stream& stream, const DepthwiseGeometry& g, const T* x, const T* y,
                                T* dw) {
  const int64_t cost = g.images * g.out_height * g.out_width * g.kernel_h * g.kernel_w;
  if (stream.on_cpu() && g.stride_h == 1 && g.stride_w == 1 &&
      depthwise::Padded{g.height, g.width, g.pad_h, g.pad_w}.fits()) {
    ParallelFor(stream, g.features(), depthwise::WeightGradientPlaneOp<T>{g, x, y, dw}, cost);
    return;
  }
  ParallelFor(stream, g.features(), WeightGradientOp<T>{g, x, y, dw}, cost);
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void DepthwiseApply<T>(Stream&, const DepthwiseGeometry&, const T*, const T*, T*);      \
  template void DepthwiseApplyTransposed<T>(Stream&, const DepthwiseGeometry&, const T*, const T*, \
                                            T*);                                                   \
  template void DepthwiseAddWeightGradient<T>(Stream&, const DepthwiseGeometry&, const T*,         \
                                              const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
