#include "carafe/kernels/pooling.h"

#include <cfloat>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// The part of a window that lies inside the plane, along one axis; `area` counts padding, too.
struct Span {
  int64_t begin, end, area;
  CARAFE_HD Span(int64_t index, int64_t kernel, int64_t stride, int64_t pad, int64_t size) {
    begin = index * stride - pad;
    end = begin + kernel;
    const int64_t padded_end = end < size + pad ? end : size + pad;
    area = padded_end > begin ? padded_end - begin : 0;
    if (begin < 0) begin = 0;
    if (end > size) end = size;
  }
};
CARAFE_HD inline Span Rows(const PoolGeometry& g, int64_t ph) {
  return Span(ph, g.kernel_h, g.stride_h, g.pad_h, g.height);
}
CARAFE_HD inline Span Columns(const PoolGeometry& g, int64_t pw) {
  return Span(pw, g.kernel_w, g.stride_w, g.pad_w, g.width);
}

// Forward functors take one row of windows; i counts the rows of all planes.
template <typename T>
struct MaxForwardOp {
  PoolGeometry g;
  const T* x;
  T* y;
  int32_t* mask;
  CARAFE_HD void operator()(int64_t i) const {
    const Span rows = Rows(g, i % g.pooled_height);
    const T* plane = x + i / g.pooled_height * g.height * g.width;
    T* out = y + i * g.pooled_width;
    int32_t* where = mask + i * g.pooled_width;
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const Span columns = Columns(g, pw);
      T best = static_cast<T>(-FLT_MAX);
      int64_t at = -1;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        const T* line = plane + h * g.width;
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          const bool better = line[w] > best;
          best = better ? line[w] : best;
          at = better ? h * g.width + w : at;
        }
      }
      out[pw] = best;
      where[pw] = static_cast<int32_t>(at);
    }
  }
};

// The common case, windows of 2 x 2 side by side and all inside: branch-free, so that it
// vectorises.
template <typename T>
struct MaxForwardTwoByTwoOp {
  PoolGeometry g;
  const T* x;
  T* y;
  int32_t* mask;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t h = i % g.pooled_height * 2;
    const T* top = x + i / g.pooled_height * g.height * g.width + h * g.width;
    const T* low = top + g.width;
    const int32_t first = static_cast<int32_t>(h * g.width);
    const int32_t second = first + static_cast<int32_t>(g.width);
    T* out = y + i * g.pooled_width;
    int32_t* where = mask + i * g.pooled_width;
    const int32_t n = static_cast<int32_t>(g.pooled_width);
    for (int32_t pw = 0; pw < n; ++pw) {
      T best = static_cast<T>(-FLT_MAX);
      int32_t at = -1;
      at = top[2 * pw] > best ? first + 2 * pw : at;
      best = top[2 * pw] > best ? top[2 * pw] : best;
      at = top[2 * pw + 1] > best ? first + 2 * pw + 1 : at;
      best = top[2 * pw + 1] > best ? top[2 * pw + 1] : best;
      at = low[2 * pw] > best ? second + 2 * pw : at;
      best = low[2 * pw] > best ? low[2 * pw] : best;
      at = low[2 * pw + 1] > best ? second + 2 * pw + 1 : at;
      best = low[2 * pw + 1] > best ? low[2 * pw + 1] : best;
      out[pw] = best;
      where[pw] = at;
    }
  }
};

// Backward functors take one plane.
template <typename T>
struct MaskedBackwardOp {
  PoolGeometry g;
  const int32_t* mask;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    const int64_t in = g.height * g.width, out = g.pooled_height * g.pooled_width;
    T* plane = dx + p * in;
    for (int64_t i = 0; i < in; ++i) plane[i] = 0;
    for (int64_t i = p * out; i < (p + 1) * out; ++i) {
      if (mask[i] >= 0) plane[mask[i]] += dy[i];
    }
  }
};

template <typename T>
struct MaskToNumbersOp {
  const int32_t* mask;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = static_cast<T>(mask[i]); }
};

template <typename T>
struct AverageForwardOp {
  PoolGeometry g;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const Span rows = Rows(g, i % g.pooled_height);
    const T* plane = x + i / g.pooled_height * g.height * g.width;
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const Span columns = Columns(g, pw);
      T sum = 0;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) sum += plane[h * g.width + w];
      }
      const int64_t area = rows.area * columns.area;
      y[i * g.pooled_width + pw] = area > 0 ? sum / static_cast<T>(area) : T(0);
    }
  }
};

template <typename T>
struct AverageBackwardOp {
  PoolGeometry g;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    T* plane = dx + p * g.height * g.width;
    for (int64_t i = 0; i < g.height * g.width; ++i) plane[i] = 0;
    const T* in = dy + p * g.pooled_height * g.pooled_width;
    for (int64_t ph = 0; ph < g.pooled_height; ++ph) {
      const Span rows = Rows(g, ph);
      for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
        const Span columns = Columns(g, pw);
        const int64_t area = rows.area * columns.area;
        const T part = area > 0 ? in[ph * g.pooled_width + pw] / static_cast<T>(area) : T(0);
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) plane[h * g.width + w] += part;
        }
      }
    }
  }
};

template <typename T>
struct SampledForwardOp {
  PoolGeometry g;
  RandomKey key;
  int64_t slot_offset, slot_stride, planes_per_row;
  const T* x;
  T* y;
  int32_t* mask;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t p = i / g.pooled_height, ph = i % g.pooled_height;
    const int64_t slot = p / planes_per_row * slot_stride + slot_offset;
    const Span rows = Rows(g, ph);
    const T* plane = x + p * g.height * g.width;
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const Span columns = Columns(g, pw);
      T total = 0;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) total += plane[h * g.width + w];
      }
      const int64_t element = (p % planes_per_row * g.pooled_height + ph) * g.pooled_width + pw;
      const T limit = static_cast<T>(key.Uniform(slot, element)) * total;
      T sum = 0;
      int64_t at = -1;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          const T before = sum;
          sum += plane[h * g.width + w];
          if (before <= limit) at = h * g.width + w;
        }
      }
      y[i * g.pooled_width + pw] = at < 0 ? T(0) : plane[at];
      mask[i * g.pooled_width + pw] = static_cast<int32_t>(at);
    }
  }
};

template <typename T>
struct ExpectedForwardOp {
  PoolGeometry g;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const Span rows = Rows(g, i % g.pooled_height);
    const T* plane = x + i / g.pooled_height * g.height * g.width;
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const Span columns = Columns(g, pw);
      T sum = 0, squares = 0;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          const T value = plane[h * g.width + w];
          sum += value;
          squares += value * value;
        }
      }
      y[i * g.pooled_width + pw] = sum > 0 ? squares / sum : T(0);
    }
  }
};

// d(sum x^2 / sum x) / dx = (2 x - y) / sum x
template <typename T>
struct ExpectedBackwardOp {
  PoolGeometry g;
  const T *x, *y, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    const T* values = x + p * g.height * g.width;
    T* plane = dx + p * g.height * g.width;
    for (int64_t i = 0; i < g.height * g.width; ++i) plane[i] = 0;
    for (int64_t ph = 0; ph < g.pooled_height; ++ph) {
      const Span rows = Rows(g, ph);
      for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
        const Span columns = Columns(g, pw);
        const int64_t i = (p * g.pooled_height + ph) * g.pooled_width + pw;
        T sum = 0;
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) sum += values[h * g.width + w];
        }
        if (!(sum > 0)) continue;
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            plane[h * g.width + w] += dy[i] * (2 * values[h * g.width + w] - y[i]) / sum;
          }
        }
      }
    }
  }
};

int64_t RowCost(const PoolGeometry& g) { return g.pooled_width * g.kernel_h * g.kernel_w; }
int64_t PlaneCost(const PoolGeometry& g) { return g.pooled_height * RowCost(g); }

}  // namespace

template <typename T>
void MaxPoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y, int32_t* mask) {
  const int64_t rows = g.planes * g.pooled_height;
  if (g.kernel_h == 2 && g.kernel_w == 2 && g.stride_h == 2 && g.stride_w == 2 && g.pad_h == 0 &&
      g.pad_w == 0 && g.pooled_height * 2 <= g.height && g.pooled_width * 2 <= g.width) {
    return ParallelFor(stream, rows, MaxForwardTwoByTwoOp<T>{g, x, y, mask}, RowCost(g));
  }
  ParallelFor(stream, rows, MaxForwardOp<T>{g, x, y, mask}, RowCost(g));
}
template <typename T>
void MaskedPoolBackward(Stream& stream, const PoolGeometry& g, const int32_t* mask, const T* dy,
                        T* dx) {
  ParallelFor(stream, g.planes, MaskedBackwardOp<T>{g, mask, dy, dx}, g.in_size());
}
template <typename T>
void MaskToNumbers(Stream& stream, int64_t n, const int32_t* mask, T* y) {
  ParallelFor(stream, n, MaskToNumbersOp<T>{mask, y});
}
template <typename T>
void AveragePoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y) {
  ParallelFor(stream, g.planes * g.pooled_height, AverageForwardOp<T>{g, x, y}, RowCost(g));
}
template <typename T>
void AveragePoolBackward(Stream& stream, const PoolGeometry& g, const T* dy, T* dx) {
  ParallelFor(stream, g.planes, AverageBackwardOp<T>{g, dy, dx}, PlaneCost(g));
}
template <typename T>
void SampledPoolForward(Stream& stream, const PoolGeometry& g, RandomKey key, int64_t slot_offset,
                        int64_t slot_stride, int64_t planes_per_row, const T* x, T* y,
                        int32_t* mask) {
  ParallelFor(stream, g.planes * g.pooled_height,
              SampledForwardOp<T>{g, key, slot_offset, slot_stride, planes_per_row, x, y, mask},
              2 * RowCost(g));
}
template <typename T>
void ExpectedPoolForward(Stream& stream, const PoolGeometry& g, const T* x, T* y) {
  ParallelFor(stream, g.planes * g.pooled_height, ExpectedForwardOp<T>{g, x, y}, RowCost(g));
}
template <typename T>
void ExpectedPoolBackward(Stream& stream, const PoolGeometry& g, const T* x, const T* y,
                          const T* dy, T* dx) {
  ParallelFor(stream, g.planes, ExpectedBackwardOp<T>{g, x, y, dy, dx}, 2 * PlaneCost(g));
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void MaxPoolForward<T>(Stream&, const PoolGeometry&, const T*, T*, int32_t*);           \
  template void MaskedPoolBackward<T>(Stream&, const PoolGeometry&, const int32_t*, const T*, T*); \
  template void MaskToNumbers<T>(Stream&, int64_t, const int32_t*, T*);                            \
  template void AveragePoolForward<T>(Stream&, const PoolGeometry&, const T*, T*);                 \
  template void AveragePoolBackward<T>(Stream&, const PoolGeometry&, const T*, T*);                \
  template void SampledPoolForward<T>(Stream&, const PoolGeometry&, RandomKey, int64_t, int64_t,   \
                                      int64_t, const T*, T*, int32_t*);                            \
  template void ExpectedPoolForward<T>(Stream&, const PoolGeometry&, const T*, T*);                \
  template void ExpectedPoolBackward<T>(Stream&, const PoolGeometry&, const T*, const T*,          \
                                        const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
