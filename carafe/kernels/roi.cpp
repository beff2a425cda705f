#include "carafe/kernels/roi.h"

#include <cmath>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

struct Bin {
  int64_t top, bottom, left, right;  // one past the last row and column
  CARAFE_HD bool empty() const { return bottom <= top || right <= left; }
  CARAFE_HD int64_t area() const { return (bottom - top) * (right - left); }
};

CARAFE_HD int64_t Plane(const RoiGeometry& g) { return g.height * g.width; }

// NaN counts as 0.
CARAFE_HD int64_t Clamp(double x, int64_t most) {
  const double least = x > 0 ? x : 0;
  return least > static_cast<double>(most) ? most : static_cast<int64_t>(least);
}

// Corners are rounded to whole features first; bins then overlap by what rounding outwards takes.
template <typename T>
CARAFE_HD Bin MaxBin(const RoiGeometry& g, const T* region, int64_t i, int64_t j) {
  const double left = round(static_cast<double>(region[1]) * g.scale);
  const double top = round(static_cast<double>(region[2]) * g.scale);
  const double right = round(static_cast<double>(region[3]) * g.scale);
  const double bottom = round(static_cast<double>(region[4]) * g.scale);
  const double height = bottom - top + 1 > 1 ? bottom - top + 1 : 1;
  const double width = right - left + 1 > 1 ? right - left + 1 : 1;
  // In float, as published: in double a bin may end one row later.
  const float bin_h = static_cast<float>(height) / static_cast<float>(g.pooled_h);
  const float bin_w = static_cast<float>(width) / static_cast<float>(g.pooled_w);
  return {Clamp(floor(static_cast<float>(i) * bin_h) + top, g.height),
          Clamp(ceil(static_cast<float>(i + 1) * bin_h) + top, g.height),
          Clamp(floor(static_cast<float>(j) * bin_w) + left, g.width),
          Clamp(ceil(static_cast<float>(j + 1) * bin_w) + left, g.width)};
}

// Corners stay where they are, and a region covers its last pixel.
template <typename T>
CARAFE_HD Bin PositionBin(const RoiGeometry& g, const T* region, int64_t i, int64_t j) {
  const float scale = static_cast<float>(g.scale);
  const float left = static_cast<float>(round(region[1])) * scale;
  const float top = static_cast<float>(round(region[2])) * scale;
  const float right = static_cast<float>(round(region[3]) + 1) * scale;
  const float bottom = static_cast<float>(round(region[4]) + 1) * scale;
  const float height = bottom - top > 0.1F ? bottom - top : 0.1F;
  const float width = right - left > 0.1F ? right - left : 0.1F;
  const float bin_h = height / static_cast<float>(g.pooled_h);
  const float bin_w = width / static_cast<float>(g.pooled_w);
  return {Clamp(floor(static_cast<float>(i) * bin_h + top), g.height),
          Clamp(ceil(static_cast<float>(i + 1) * bin_h + top), g.height),
          Clamp(floor(static_cast<float>(j) * bin_w + left), g.width),
          Clamp(ceil(static_cast<float>(j + 1) * bin_w + left), g.width)};
}

template <typename T>
struct MaxForwardOp {
  RoiGeometry g;
  const T *x, *regions;
  T *y, *where;
  CARAFE_HD void operator()(int64_t n) const {
    const int64_t j = n % g.pooled_w, i = n / g.pooled_w % g.pooled_h;
    const int64_t c = n / (g.pooled_w * g.pooled_h) % g.channels;
    const T* region = regions + n / (g.pooled_w * g.pooled_h * g.channels) * 5;
    const T* plane = x + (static_cast<int64_t>(region[0]) * g.channels + c) * Plane(g);
    const Bin bin = MaxBin(g, region, i, j);
    T best = 0;
    int64_t at = -1;
    for (int64_t row = bin.top; row < bin.bottom; ++row) {
      for (int64_t column = bin.left; column < bin.right; ++column) {
        const T value = plane[row * g.width + column];
        if (at >= 0 && value <= best) continue;
        best = value;
        at = row * g.width + column;
      }
    }
    y[n] = best;
    where[n] = static_cast<T>(at);
  }
};

// One plane of an image: regions may overlap, so a bin does not own what it adds to.
template <typename T>
struct MaxBackwardOp {
  RoiGeometry g;
  const T *regions, *where, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t n) const {
    const int64_t image = n / g.channels, c = n % g.channels, bins = g.pooled_h * g.pooled_w;
    T* plane = dx + n * Plane(g);
    for (int64_t i = 0; i < Plane(g); ++i) plane[i] = 0;
    for (int64_t r = 0; r < g.regions; ++r) {
      if (static_cast<int64_t>(regions[r * 5]) != image) continue;
      const int64_t first = (r * g.channels + c) * bins;
      for (int64_t b = first; b < first + bins; ++b) {
        if (where[b] >= 0) plane[static_cast<int64_t>(where[b])] += dy[b];
      }
    }
  }
};

template <typename T>
struct PositionForwardOp {
  RoiGeometry g;
  const T *x, *regions;
  T* y;
  CARAFE_HD void operator()(int64_t n) const {
    const int64_t bins = g.pooled_h * g.pooled_w, outputs = g.channels / bins;
    const int64_t j = n % g.pooled_w, i = n / g.pooled_w % g.pooled_h, c = n / bins % outputs;
    const T* region = regions + n / (bins * outputs) * 5;
    const int64_t channel = (c * g.pooled_h + i) * g.pooled_w + j;
    const T* plane = x + (static_cast<int64_t>(region[0]) * g.channels + channel) * Plane(g);
    const Bin bin = PositionBin(g, region, i, j);
    T sum = 0;
    for (int64_t row = bin.top; row < bin.bottom; ++row) {
      for (int64_t column = bin.left; column < bin.right; ++column) {
        sum += plane[row * g.width + column];
      }
    }
    y[n] = bin.empty() ? T(0) : sum / static_cast<T>(bin.area());
  }
};

template <typename T>
struct PositionBackwardOp {
  RoiGeometry g;
  const T *regions, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t n) const {
    const int64_t image = n / g.channels, channel = n % g.channels;
    const int64_t i = channel / g.pooled_w % g.pooled_h, j = channel % g.pooled_w;
    T* plane = dx + n * Plane(g);
    for (int64_t p = 0; p < Plane(g); ++p) plane[p] = 0;
    for (int64_t r = 0; r < g.regions; ++r) {
      if (static_cast<int64_t>(regions[r * 5]) != image) continue;
      const Bin bin = PositionBin(g, regions + r * 5, i, j);
      if (bin.empty()) continue;
      const T part = dy[r * g.channels + channel] / static_cast<T>(bin.area());
      for (int64_t row = bin.top; row < bin.bottom; ++row) {
        for (int64_t column = bin.left; column < bin.right; ++column) {
          plane[row * g.width + column] += part;
        }
      }
    }
  }
};

}  // namespace

template <typename T>
void RoiMaxForward(Stream& stream, const RoiGeometry& g, const T* x, const T* regions, T* y,
                   T* where) {
  ParallelFor(stream, g.regions * g.channels * g.pooled_h * g.pooled_w,
              MaxForwardOp<T>{g, x, regions, y, where}, 16);
}
template <typename T>
void RoiMaxBackward(Stream& stream, const RoiGeometry& g, const T* regions, const T* where,
                    const T* dy, T* dx) {
  ParallelFor(stream, g.images * g.channels, MaxBackwardOp<T>{g, regions, where, dy, dx},
              Plane(g) + g.regions * g.pooled_h * g.pooled_w);
}
template <typename T>
void RoiPositionForward(Stream& stream, const RoiGeometry& g, const T* x, const T* regions, T* y) {
  ParallelFor(stream, g.regions * g.channels, PositionForwardOp<T>{g, x, regions, y}, 16);
}
template <typename T>
void RoiPositionBackward(Stream& stream, const RoiGeometry& g, const T* regions, const T* dy,
                         T* dx) {
  ParallelFor(stream, g.images * g.channels, PositionBackwardOp<T>{g, regions, dy, dx},
              Plane(g) + g.regions);
}

#define CARAFE_INSTANTIATE(T)                                                                     \
  template void RoiMaxForward<T>(Stream&, const RoiGeometry&, const T*, const T*, T*, T*);        \
  template void RoiMaxBackward<T>(Stream&, const RoiGeometry&, const T*, const T*, const T*, T*); \
  template void RoiPositionForward<T>(Stream&, const RoiGeometry&, const T*, const T*, T*);       \
  template void RoiPositionBackward<T>(Stream&, const RoiGeometry&, const T*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
