#include "carafe/kernels/im2col.h"

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// The windows of a channel seen from one element of the kernel: for every window the image element
// that it covers. Windows come in runs along the last axis; inside a run the covered elements are
// `stride` apart, and windows [first, last) of it lie inside the image.
struct Tap {
  const ColumnGeometry& g;
  int64_t shift[kMaxSpatialAxes];  // of window 0 along each axis: kernel offset minus padding
  int64_t first = 0, last = 0;

  CARAFE_HD Tap(const ColumnGeometry& geometry, int64_t kernel_index) : g(geometry) {
    for (int a = g.axes - 1; a >= 0; --a) {
      shift[a] = kernel_index % g.kernel[a] * g.dilation[a] - g.pad[a];
      kernel_index /= g.kernel[a];
    }
    Range(g.axes - 1, &first, &last);
  }
  // The windows [from, to) along axis a that lie inside the image along it.
  CARAFE_HD void Range(int a, int64_t* from, int64_t* to) const {
    const int64_t stride = g.stride[a];
    *from = shift[a] < 0 ? (-shift[a] + stride - 1) / stride : 0;
    *to = g.in[a] > shift[a] ? (g.in[a] - shift[a] - 1) / stride + 1 : 0;
    if (*to > g.out[a]) *to = g.out[a];
    if (*from > *to) *from = *to;
  }
  // Where run number `run` starts in the channel (its window 0, which may lie before the image), or
  // false if the whole run is outside.
  CARAFE_HD bool Locate(int64_t run, int64_t* start) const {
    int64_t offset = 0, step = g.in[g.axes - 1];
    for (int a = g.axes - 2; a >= 0; --a) {
      int64_t position = run;
      if (a > 0) {
        position = run % g.out[a];
        run /= g.out[a];
      }
      position = position * g.stride[a] + shift[a];
      if (position < 0 || position >= g.in[a]) return false;
      offset += position * step;
      step *= g.in[a];
    }
    *start = offset + shift[g.axes - 1];
    return true;
  }
};

// The common case, two axes with stride 1: the windows inside the image are a block of both x and
// y. Its rows are short (the width of an image in the last layers), so they go in eights of known
// length, without the set-up that a plain loop would need for each.
template <bool kAdd, typename T>
CARAFE_HD inline void MoveBlock(int64_t rows, int64_t width, const T* __restrict__ x,
                                int64_t x_step, T* __restrict__ y, int64_t y_step) {
  for (int64_t r = 0; r < rows; ++r, x += x_step, y += y_step) {
    int64_t i = 0;
    for (; i + 8 <= width; i += 8) {
      for (int j = 0; j < 8; ++j) y[i + j] = kAdd ? y[i + j] + x[i + j] : x[i + j];
    }
    for (; i < width; ++i) y[i] = kAdd ? y[i] + x[i] : x[i];
  }
}

// The block of a tap: rows and columns of windows inside the image, and where window (first row,
// first column) lies in the channel.
struct Block {
  int64_t row, column, rows, columns, start;
  CARAFE_HD explicit Block(const Tap& tap) {
    int64_t last_row;
    tap.Range(0, &row, &last_row);
    rows = last_row - row;
    column = tap.first;
    columns = tap.last - tap.first;
    start = (row + tap.shift[0]) * tap.g.in[1] + column + tap.shift[1];
  }
};

// One row of the matrix: one element of the kernel in one channel.
template <typename T>
struct Im2colOp {
  ColumnGeometry g;
  int64_t kernel_size, in_size, out_size;
  const T* image;
  T* columns;
  CARAFE_HD void operator()(int64_t row) const {
    const Tap tap(g, row % kernel_size);
    const int64_t width = g.out[g.axes - 1], stride = g.stride[g.axes - 1];
    const T* channel = image + row / kernel_size * in_size;
    T* y = columns + row * out_size;
    if (g.axes == 2 && g.stride[0] == 1 && stride == 1) {
      const Block block(tap);
      if (block.rows * block.columns < out_size) {
        for (int64_t i = 0; i < out_size; ++i) y[i] = 0;
      }
      MoveBlock<false>(block.rows, block.columns, channel + block.start, g.in[1],
                       y + block.row * width + block.column, width);
      return;
    }
    const int64_t runs = out_size / width;
    for (int64_t run = 0; run < runs; ++run, y += width) {
      int64_t start;
      if (!tap.Locate(run, &start)) {
        for (int64_t i = 0; i < width; ++i) y[i] = 0;
        continue;
      }
      for (int64_t i = 0; i < tap.first; ++i) y[i] = 0;
      for (int64_t i = tap.first; i < tap.last; ++i) y[i] = channel[start + i * stride];
      for (int64_t i = tap.last; i < width; ++i) y[i] = 0;
    }
  }
};

// One channel of the image: all its rows of the matrix, added in order.
template <typename T>
struct Col2imOp {
  ColumnGeometry g;
  int64_t kernel_size, in_size, out_size;
  const T* columns;
  T* image;
  CARAFE_HD void operator()(int64_t c) const {
    T* channel = image + c * in_size;
    for (int64_t i = 0; i < in_size; ++i) channel[i] = 0;
    const int64_t width = g.out[g.axes - 1], stride = g.stride[g.axes - 1];
    const int64_t runs = width > 0 ? out_size / width : 0;
    const T* y = columns + c * kernel_size * out_size;
    for (int64_t k = 0; k < kernel_size; ++k) {
      const Tap tap(g, k);
      if (g.axes == 2 && g.stride[0] == 1 && stride == 1) {
        const Block block(tap);
        MoveBlock<true>(block.rows, block.columns, y + block.row * width + block.column, width,
                        channel + block.start, g.in[1]);
        y += out_size;
        continue;
      }
      for (int64_t run = 0; run < runs; ++run, y += width) {
        int64_t start;
        if (!tap.Locate(run, &start)) continue;
        for (int64_t i = tap.first; i < tap.last; ++i) channel[start + i * stride] += y[i];
      }
    }
  }
};

}  // namespace

template <typename T>
void Im2col(Stream& stream, const ColumnGeometry& g, const T* image, T* columns) {
  if (g.out_size() == 0) return;
  if (g.axes == 0) return stream.Copy(columns, image, static_cast<size_t>(g.channels));
  ParallelFor(stream, g.rows(),
              Im2colOp<T>{g, g.kernel_size(), g.in_size(), g.out_size(), image, columns},
              g.out_size());
}

template <typename T>
void Col2im(Stream& stream, const ColumnGeometry& g, const T* columns, T* image) {
  if (g.axes == 0) return stream.Copy(image, columns, static_cast<size_t>(g.channels));
  ParallelFor(stream, g.channels,
              Col2imOp<T>{g, g.kernel_size(), g.in_size(), g.out_size(), columns, image},
              g.out_size() * g.kernel_size());
}

template void Im2col<float>(Stream&, const ColumnGeometry&, const float*, float*);
template void Im2col<double>(Stream&, const ColumnGeometry&, const double*, double*);
template void Col2im<float>(Stream&, const ColumnGeometry&, const float*, float*);
template void Col2im<double>(Stream&, const ColumnGeometry&, const double*, double*);

}  // namespace carafe
