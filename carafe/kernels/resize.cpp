#include "carafe/kernels/resize.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// The two neighbours of output o along an axis, and the weight of the second.
template <typename T>
struct Neighbours {
  int64_t low, high;
  T part;
  CARAFE_HD Neighbours(int64_t o, int64_t in, int64_t out) {
    const int64_t steps = out > 1 ? out - 1 : 1;
    const int64_t at = out > 1 ? o * (in - 1) : 0;
    low = at / steps;
    high = low + 1 < in ? low + 1 : low;
    part = static_cast<T>(at % steps) / static_cast<T>(steps);
  }
};

// One row of the output.
template <typename T>
struct BilinearForwardOp {
  BilinearGeometry g;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const Neighbours<T> rows(i % g.out_height, g.height, g.out_height);
    const T* plane = x + i / g.out_height * g.in_height * g.in_width + g.first;
    const T* upper = plane + (rows.low + g.first) * g.in_width;
    const T* lower = plane + (rows.high + g.first) * g.in_width;
    for (int64_t ow = 0; ow < g.out_width; ++ow) {
      const Neighbours<T> columns(ow, g.width, g.out_width);
      const T above =
          upper[columns.low] + columns.part * (upper[columns.high] - upper[columns.low]);
      const T below =
          lower[columns.low] + columns.part * (lower[columns.high] - lower[columns.low]);
      y[i * g.out_width + ow] = above + rows.part * (below - above);
    }
  }
};

template <typename T>
struct BilinearBackwardOp {
  BilinearGeometry g;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t p) const {
    T* whole = dx + p * g.in_height * g.in_width;
    for (int64_t i = 0; i < g.in_height * g.in_width; ++i) whole[i] = 0;
    T* plane = whole + g.first;
    for (int64_t oh = 0; oh < g.out_height; ++oh) {
      const Neighbours<T> rows(oh, g.height, g.out_height);
      T* upper = plane + (rows.low + g.first) * g.in_width;
      T* lower = plane + (rows.high + g.first) * g.in_width;
      const T* in = dy + (p * g.out_height + oh) * g.out_width;
      for (int64_t ow = 0; ow < g.out_width; ++ow) {
        const Neighbours<T> columns(ow, g.width, g.out_width);
        const T above = (1 - rows.part) * in[ow], below = rows.part * in[ow];
        upper[columns.low] += (1 - columns.part) * above;
        upper[columns.high] += columns.part * above;
        lower[columns.low] += (1 - columns.part) * below;
        lower[columns.high] += columns.part * below;
      }
    }
  }
};

// One row of the larger planes, or of the smaller ones.
template <typename T>
struct RepeatForwardOp {
  RepeatGeometry g;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t wide = g.width * g.scale_w;
    const T* row = x + i / g.scale_h * g.width;  // scale_h rows in a row come from one
    for (int64_t o = 0; o < wide; ++o) y[i * wide + o] = row[o / g.scale_w];
  }
};
template <typename T>
struct RepeatBackwardOp {
  RepeatGeometry g;
  const T* dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t wide = g.width * g.scale_w;
    for (int64_t w = 0; w < g.width; ++w) {
      T sum = 0;
      for (int64_t h = 0; h < g.scale_h; ++h) {
        const T* run = dy + (i * g.scale_h + h) * wide + w * g.scale_w;
        for (int64_t k = 0; k < g.scale_w; ++k) sum += run[k];
      }
      dx[i * g.width + w] = sum;
    }
  }
};

// The index that a mask's number stands for, or -1.
template <typename T>
CARAFE_HD inline int64_t MaskIndex(T number, int64_t size) {
  return number >= 0 && number < static_cast<T>(size) ? static_cast<int64_t>(number) : -1;
}

template <typename T>
struct UnpoolForwardOp {  // one plane
  int64_t in_size, out_size;
  const T *mask, *x;
  T* y;
  CARAFE_HD void operator()(int64_t p) const {
    T* plane = y + p * out_size;
    for (int64_t i = 0; i < out_size; ++i) plane[i] = 0;
    for (int64_t i = p * in_size; i < (p + 1) * in_size; ++i) {
      const int64_t at = MaskIndex(mask[i], out_size);
      if (at >= 0) plane[at] += x[i];
    }
  }
};
template <typename T>
struct UnpoolBackwardOp {
  int64_t in_size, out_size;
  const T *mask, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const {
    const int64_t at = MaskIndex(mask[i], out_size);
    dx[i] = at >= 0 ? dy[i / in_size * out_size + at] : T(0);
  }
};

}  // namespace

template <typename T>
void BilinearForward(Stream& stream, const BilinearGeometry& g, const T* x, T* y) {
  ParallelFor(stream, g.planes * g.out_height, BilinearForwardOp<T>{g, x, y}, 8 * g.out_width);
}
template <typename T>
void BilinearBackward(Stream& stream, const BilinearGeometry& g, const T* dy, T* dx) {
  ParallelFor(stream, g.planes, BilinearBackwardOp<T>{g, dy, dx}, 8 * g.out_height * g.out_width);
}
template <typename T>
void RepeatForward(Stream& stream, const RepeatGeometry& g, const T* x, T* y) {
  ParallelFor(stream, g.planes * g.height * g.scale_h, RepeatForwardOp<T>{g, x, y},
              g.width * g.scale_w);
}
template <typename T>
void RepeatBackward(Stream& stream, const RepeatGeometry& g, const T* dy, T* dx) {
  ParallelFor(stream, g.planes * g.height, RepeatBackwardOp<T>{g, dy, dx},
              g.width * g.scale_w * g.scale_h);
}
template <typename T>
void UnpoolForward(Stream& stream, int64_t planes, int64_t in_size, int64_t out_size, const T* mask,
                   const T* x, T* y) {
  ParallelFor(stream, planes, UnpoolForwardOp<T>{in_size, out_size, mask, x, y}, out_size);
}
template <typename T>
void UnpoolBackward(Stream& stream, int64_t planes, int64_t in_size, int64_t out_size,
                    const T* mask, const T* dy, T* dx) {
  ParallelFor(stream, planes * in_size, UnpoolBackwardOp<T>{in_size, out_size, mask, dy, dx}, 2);
}

#define CARAFE_INSTANTIATE(T)                                                                 \
  template void BilinearForward<T>(Stream&, const BilinearGeometry&, const T*, T*);           \
  template void BilinearBackward<T>(Stream&, const BilinearGeometry&, const T*, T*);          \
  template void RepeatForward<T>(Stream&, const RepeatGeometry&, const T*, T*);               \
  template void RepeatBackward<T>(Stream&, const RepeatGeometry&, const T*, T*);              \
  template void UnpoolForward<T>(Stream&, int64_t, int64_t, int64_t, const T*, const T*, T*); \
  template void UnpoolBackward<T>(Stream&, int64_t, int64_t, int64_t, const T*, const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
