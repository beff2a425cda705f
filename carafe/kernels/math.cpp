#include "carafe/kernels/math.h"

#include <cmath>

#include "carafe/kernels/block_results.h"
#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
struct FillOp {
  T value;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = value; }
};
template <typename T>
struct AxpyOp {
  T a;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] += a * x[i]; }
};
template <typename T>
struct ScaleOp {
  T a;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = a * x[i]; }
};
template <typename T>
struct AddOp {
  const T *a, *b;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = a[i] + b[i]; }
};
template <typename T>
struct MultiplyOp {
  const T *a, *b;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = a[i] * b[i]; }
};
// One row of `inner` elements that all get the bias of their channel.
template <typename T>
struct AddToRunOp {
  int64_t channels, inner;
  const T* b;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const T value = b[run % channels];
    T* row = y + run * inner;
    for (int64_t i = 0; i < inner; ++i) row[i] += value;
  }
};
template <typename T>
struct AddVectorToRowOp {
  int64_t width;
  const T* b;
  T* y;
  CARAFE_HD void operator()(int64_t row) const {
    for (int64_t i = 0; i < width; ++i) y[row * width + i] += b[i];
  }
};
template <typename T>
struct ChannelSumOp {
  int64_t outer, channels, inner;
  const T* y;
  T* b;
  CARAFE_HD void operator()(int64_t c) const {
    T sum = 0;
    for (int64_t o = 0; o < outer; ++o) {
      const T* row = y + (o * channels + c) * inner;
      T part = 0;
      for (int64_t i = 0; i < inner; ++i) part += row[i];
      sum += part;
    }
    b[c] += sum;
  }
};

// The columns of a matrix (rows, width) that lie side by side in a few cache lines; each is added
// in the order of the rows.
constexpr int64_t kColumns = 64;
template <typename T>
struct ColumnSumOp {
  int64_t rows, width;
  const T* y;
  T* b;
  CARAFE_HD void operator()(int64_t block) const {
    const int64_t first = block * kColumns;
    const int64_t n = width - first < kColumns ? width - first : kColumns;
    T sums[kColumns];
    for (int64_t i = 0; i < n; ++i) sums[i] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = y + r * width + first;
      for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
    }
    for (int64_t i = 0; i < n; ++i) b[first + i] += sums[i];
  }
};

enum class Term { kValue, kAbs, kSquare, kProduct, kNotFinite };

constexpr int64_t kBlock = 4096;

template <Term term, typename T>
struct BlockSumOp {
  int64_t n;
  const T *x, *y;
  double* sums;
  CARAFE_HD void operator()(int64_t block) const {
    const int64_t end = (block + 1) * kBlock < n ? (block + 1) * kBlock : n;
    double sum = 0;
    for (int64_t i = block * kBlock; i < end; ++i) {
      const double v = static_cast<double>(x[i]);
      if (term == Term::kValue) sum += v;
      if (term == Term::kAbs) sum += v < 0 ? -v : v;
      if (term == Term::kSquare) sum += v * v;
      if (term == Term::kProduct) sum += v * static_cast<double>(y[i]);
      if (term == Term::kNotFinite) sum += v - v == 0 ? 0 : 1;  // inf - inf is NaN
    }
    sums[block] = sum;
  }
};

template <Term term, typename T>
double BlockSum(Stream& stream, int64_t n, const T* x, const T* y) {
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  if (blocks == 0) return 0;
  if (blocks == 1 && stream.on_cpu()) {  // a loss, most often
    double sum = 0;
    BlockSumOp<term, T>{n, x, y, &sum}(0);
    return sum;
  }
  BlockResults sums(stream, blocks);
  ParallelFor(stream, blocks, BlockSumOp<term, T>{n, x, y, sums.data()}, kBlock);
  double total = 0;
  for (const double sum : sums.OnHost(stream)) total += sum;
  return total;
}

}  // namespace

template <typename T>
void Fill(Stream& stream, int64_t n, T value, T* y) {
  ParallelFor(stream, n, FillOp<T>{value, y});
}
template <typename T>
void Axpy(Stream& stream, int64_t n, T a, const T* x, T* y) {
  ParallelFor(stream, n, AxpyOp<T>{a, x, y});
}
template <typename T>
void Scale(Stream& stream, int64_t n, T a, const T* x, T* y) {
  ParallelFor(stream, n, ScaleOp<T>{a, x, y});
}
template <typename T>
void Add(Stream& stream, int64_t n, const T* a, const T* b, T* y) {
  ParallelFor(stream, n, AddOp<T>{a, b, y});
}
template <typename T>
void Multiply(Stream& stream, int64_t n, const T* a, const T* b, T* y) {
  ParallelFor(stream, n, MultiplyOp<T>{a, b, y});
}
template <typename T>
void AddToRows(Stream& stream, int64_t rows, int64_t width, const T* b, T* y) {
  ParallelFor(stream, rows, AddVectorToRowOp<T>{width, b, y}, width);
}
template <typename T>
void AddColumnSums(Stream& stream, int64_t rows, int64_t width, const T* y, T* b) {
  if (!stream.on_cpu()) return AddChannelSums(stream, rows, width, 1, y, b);
  ParallelFor(stream, (width + kColumns - 1) / kColumns, ColumnSumOp<T>{rows, width, y, b},
              rows * kColumns);
}
template <typename T>
void AddToChannels(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* b,
                   T* y) {
  ParallelFor(stream, outer * channels, AddToRunOp<T>{channels, inner, b, y}, inner);
}
template <typename T>
void AddChannelSums(Stream& stream, int64_t outer, int64_t channels, int64_t inner, const T* y,
                    T* b) {
  ParallelFor(stream, channels, ChannelSumOp<T>{outer, channels, inner, y, b}, outer * inner);
}

template <typename T>
double Sum(Stream& stream, int64_t n, const T* x) {
  return BlockSum<Term::kValue>(stream, n, x, x);
}
template <typename T>
double SumOfAbs(Stream& stream, int64_t n, const T* x) {
  return BlockSum<Term::kAbs>(stream, n, x, x);
}
template <typename T>
double SumOfSquares(Stream& stream, int64_t n, const T* x) {
  return BlockSum<Term::kSquare>(stream, n, x, x);
}
template <typename T>
double Dot(Stream& stream, int64_t n, const T* x, const T* y) {
  return BlockSum<Term::kProduct>(stream, n, x, y);
}
template <typename T>
bool AllFinite(Stream& stream, int64_t n, const T* x) {
  return BlockSum<Term::kNotFinite>(stream, n, x, x) == 0;
}

#define CARAFE_INSTANTIATE(T)                                                        \
  template void Fill<T>(Stream&, int64_t, T, T*);                                    \
  template void Axpy<T>(Stream&, int64_t, T, const T*, T*);                          \
  template void Scale<T>(Stream&, int64_t, T, const T*, T*);                         \
  template void Add<T>(Stream&, int64_t, const T*, const T*, T*);                    \
  template void Multiply<T>(Stream&, int64_t, const T*, const T*, T*);               \
  template void AddToRows<T>(Stream&, int64_t, int64_t, const T*, T*);               \
  template void AddColumnSums<T>(Stream&, int64_t, int64_t, const T*, T*);           \
  template void AddToChannels<T>(Stream&, int64_t, int64_t, int64_t, const T*, T*);  \
  template void AddChannelSums<T>(Stream&, int64_t, int64_t, int64_t, const T*, T*); \
  template double Sum<T>(Stream&, int64_t, const T*);                                \
  template double SumOfAbs<T>(Stream&, int64_t, const T*);                           \
  template double SumOfSquares<T>(Stream&, int64_t, const T*);                       \
  template double Dot<T>(Stream&, int64_t, const T*, const T*);                      \
  template bool AllFinite<T>(Stream&, int64_t, const T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
