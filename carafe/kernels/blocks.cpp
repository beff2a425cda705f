#include "carafe/kernels/blocks.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <bool kAdd, typename T>
struct BlockOp {  // one row
  int64_t width;
  const T* x;
  int64_t x_step;
  T* y;
  int64_t y_step;
  CARAFE_HD void operator()(int64_t r) const {
    const T* in = x + r * x_step;
    T* out = y + r * y_step;
    for (int64_t i = 0; i < width; ++i) out[i] = kAdd ? out[i] + in[i] : in[i];
  }
};

template <typename T, typename I>
struct GatherRowsOp {
  int64_t width;
  const I* index;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t r) const {
    const T* in = x + static_cast<int64_t>(index[r]) * width;
    for (int64_t i = 0; i < width; ++i) y[r * width + i] = in[i];
  }
};

// Some columns of all rows, so that rows with the same target do not meet.
template <typename T, typename I>
struct ScatterAddRowsOp {
  int64_t rows, width, columns;
  const I* index;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t part) const {
    const int64_t first = part * columns;
    const int64_t last = first + columns < width ? first + columns : width;
    for (int64_t r = 0; r < rows; ++r) {
      T* out = y + static_cast<int64_t>(index[r]) * width;
      for (int64_t i = first; i < last; ++i) out[i] += x[r * width + i];
    }
  }
};

// One run along the last axis of the part.
template <bool kPaste, typename T>
struct WindowOp {
  WindowGeometry g;
  T* whole;
  T* part;
  CARAFE_HD void operator()(int64_t run) const {
    const int last = g.axes - 1;
    int64_t at = g.offset[last], step = g.in[last], rest = run;
    for (int a = last - 1; a >= 0; --a) {
      at += (rest % g.out[a] + g.offset[a]) * step;
      rest /= g.out[a];
      step *= g.in[a];
    }
    T* y = part + run * g.out[last];
    for (int64_t i = 0; i < g.out[last]; ++i) {
      if (kPaste) {
        whole[at + i] = y[i];
      } else {
        y[i] = whole[at + i];
      }
    }
  }
};

template <bool kPaste, typename T>
void RunWindow(Stream& stream, const WindowGeometry& g, T* whole, T* part) {
  int64_t runs = 1;
  for (int a = 0; a < g.axes - 1; ++a) runs *= g.out[a];
  ParallelFor(stream, runs, WindowOp<kPaste, T>{g, whole, part}, g.out[g.axes - 1]);
}

}  // namespace

template <typename T>
void CopyBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
               int64_t y_step) {
  ParallelFor(stream, rows, BlockOp<false, T>{width, x, x_step, y, y_step}, width);
}
template <typename T>
void AddBlock(Stream& stream, int64_t rows, int64_t width, const T* x, int64_t x_step, T* y,
              int64_t y_step) {
  ParallelFor(stream, rows, BlockOp<true, T>{width, x, x_step, y, y_step}, width);
}

template <typename T, typename I>
void GatherRows(Stream& stream, int64_t rows, int64_t width, const I* index, const T* x, T* y) {
  ParallelFor(stream, rows, GatherRowsOp<T, I>{width, index, x, y}, width);
}
template <typename T, typename I>
void ScatterAddRows(Stream& stream, int64_t rows, int64_t width, const I* index, const T* x, T* y) {
  const int64_t columns = stream.on_cpu() ? 64 : 1;
  ParallelFor(stream, (width + columns - 1) / columns,
              ScatterAddRowsOp<T, I>{rows, width, columns, index, x, y}, rows * columns);
}
template <typename T>
void CopyWindow(Stream& stream, const WindowGeometry& g, const T* x, T* y) {
  RunWindow<false>(stream, g, const_cast<T*>(x), y);
}
template <typename T>
void PasteWindow(Stream& stream, const WindowGeometry& g, const T* y, T* x) {
  RunWindow<true>(stream, g, x, const_cast<T*>(y));
}

template void GatherRows(Stream&, int64_t, int64_t, const double*, const float*, float*);
template void GatherRows(Stream&, int64_t, int64_t, const double*, const double*, double*);
template void GatherRows(Stream&, int64_t, int64_t, const float*, const float*, float*);
template void ScatterAddRows(Stream&, int64_t, int64_t, const double*, const float*, float*);
template void ScatterAddRows(Stream&, int64_t, int64_t, const double*, const double*, double*);
template void ScatterAddRows(Stream&, int64_t, int64_t, const float*, const float*, float*);
#define CARAFE_INSTANTIATE(T)                                                            \
  template void CopyWindow<T>(Stream&, const WindowGeometry&, const T*, T*);             \
  template void PasteWindow<T>(Stream&, const WindowGeometry&, const T*, T*);            \
  template void CopyBlock<T>(Stream&, int64_t, int64_t, const T*, int64_t, T*, int64_t); \
  template void AddBlock<T>(Stream&, int64_t, int64_t, const T*, int64_t, T*, int64_t);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
