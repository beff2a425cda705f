#include "carafe/kernels/pooling_nd.h"

#include <cfloat>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// The part of one window that lies inside its plane, as a walk over its elements in memory order.
struct WindowWalk {
  int axes;
  bool done;
  int64_t begin[kMaxSpatialAxes], end[kMaxSpatialAxes], at[kMaxSpatialAxes], step[kMaxSpatialAxes];
  int64_t area;  // counts padding, too

  CARAFE_HD WindowWalk(const PoolNdGeometry& g, int64_t window) : axes(g.axes), done(false) {
    area = 1;
    int64_t size = 1;
    for (int a = g.axes - 1; a >= 0; --a) {
      begin[a] = window % g.out[a] * g.stride[a] - g.pad[a];
      window /= g.out[a];
      end[a] = begin[a] + g.kernel[a];
      const int64_t padded = end[a] < g.in[a] + g.pad[a] ? end[a] : g.in[a] + g.pad[a];
      area *= padded > begin[a] ? padded - begin[a] : 0;
      if (begin[a] < 0) begin[a] = 0;
      if (end[a] > g.in[a]) end[a] = g.in[a];
      if (begin[a] >= end[a]) done = true;
      at[a] = begin[a];
      step[a] = size;
      size *= g.in[a];
    }
  }
  // Of the next run along the last axis, which has end - begin elements there.
  CARAFE_HD int64_t Offset() const {
    int64_t offset = 0;
    for (int a = 0; a < axes; ++a) offset += at[a] * step[a];
    return offset;
  }
  CARAFE_HD int64_t Width() const { return end[axes - 1] - begin[axes - 1]; }
  CARAFE_HD void NextRun() {
    for (int a = axes - 2; a >= 0; --a) {
      if (++at[a] < end[a]) return;
      at[a] = begin[a];
    }
    done = true;
  }
};

// Forward functors take one window; backward ones a plane.
template <typename T>
struct MaxForwardOp {
  PoolNdGeometry g;
  int64_t in_size, out_size;
  const T* x;
  T* y;
  int32_t* mask;
  CARAFE_HD void operator()(int64_t i) const {
    const T* plane = x + i / out_size * in_size;
    T best = static_cast<T>(-FLT_MAX);
    int64_t where = -1;
    for (WindowWalk walk(g, i % out_size); !walk.done; walk.NextRun()) {
      const int64_t first = walk.Offset(), last = first + walk.Width();
      for (int64_t k = first; k < last; ++k) {
        const bool better = plane[k] > best;
        best = better ? plane[k] : best;
        where = better ? k : where;
      }
    }
    y[i] = best;
    mask[i] = static_cast<int32_t>(where);
  }
};

template <typename T>
struct MaskedBackwardOp {
  int64_t in_size, out_size;
  const int32_t* mask;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    T* plane = dx + p * in_size;
    for (int64_t i = 0; i < in_size; ++i) plane[i] = 0;
    for (int64_t i = p * out_size; i < (p + 1) * out_size; ++i) {
      if (mask[i] >= 0) plane[mask[i]] += dy[i];
    }
  }
};

template <typename T>
struct AverageForwardOp {
  PoolNdGeometry g;
  int64_t in_size, out_size;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const T* plane = x + i / out_size * in_size;
    WindowWalk walk(g, i % out_size);
    T sum = 0;
    for (; !walk.done; walk.NextRun()) {
      const int64_t first = walk.Offset(), last = first + walk.Width();
      for (int64_t k = first; k < last; ++k) sum += plane[k];
    }
    y[i] = walk.area > 0 ? sum / static_cast<T>(walk.area) : T(0);
  }
};

template <typename T>
struct AverageBackwardOp {
  PoolNdGeometry g;
  int64_t in_size, out_size;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    T* plane = dx + p * in_size;
    for (int64_t i = 0; i < in_size; ++i) plane[i] = 0;
    for (int64_t i = 0; i < out_size; ++i) {
      WindowWalk walk(g, i);
      const T part = walk.area > 0 ? dy[p * out_size + i] / static_cast<T>(walk.area) : T(0);
      for (; !walk.done; walk.NextRun()) {
        const int64_t first = walk.Offset(), last = first + walk.Width();
        for (int64_t k = first; k < last; ++k) plane[k] += part;
      }
    }
  }
};

}  // namespace

template <typename T>
void MaxPoolNdForward(Stream& stream, const PoolNdGeometry& g, const T* x, T* y, int32_t* mask) {
  ParallelFor(stream, g.planes * g.out_size(),
              MaxForwardOp<T>{g, g.in_size(), g.out_size(), x, y, mask}, g.kernel_size());
}
template <typename T>
void MaskedPoolNdBackward(Stream& stream, const PoolNdGeometry& g, const int32_t* mask, const T* dy,
                          T* dx) {
  ParallelFor(stream, g.planes, MaskedBackwardOp<T>{g.in_size(), g.out_size(), mask, dy, dx},
              g.in_size());
}
template <typename T>
void AveragePoolNdForward(Stream& stream, const PoolNdGeometry& g, const T* x, T* y) {
  ParallelFor(stream, g.planes * g.out_size(),
              AverageForwardOp<T>{g, g.in_size(), g.out_size(), x, y}, g.kernel_size());
}
template <typename T>
void AveragePoolNdBackward(Stream& stream, const PoolNdGeometry& g, const T* dy, T* dx) {
  ParallelFor(stream, g.planes, AverageBackwardOp<T>{g, g.in_size(), g.out_size(), dy, dx},
              g.out_size() * g.kernel_size());
}

#define CARAFE_INSTANTIATE(T)                                                                     \
  template void MaxPoolNdForward<T>(Stream&, const PoolNdGeometry&, const T*, T*, int32_t*);      \
  template void MaskedPoolNdBackward<T>(Stream&, const PoolNdGeometry&, const int32_t*, const T*, \
                                        T*);                                                      \
  template void AveragePoolNdForward<T>(Stream&, const PoolNdGeometry&, const T*, T*);            \
  template void AveragePoolNdBackward<T>(Stream&, const PoolNdGeometry&, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
