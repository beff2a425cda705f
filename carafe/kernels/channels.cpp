#include "carafe/kernels/channels.h"

#include <cmath>

#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

// Functors over runs take one run of `inner` elements; over channels, all elements of a channel.
template <typename T>
struct ScaleChannelsOp {
  ChannelAxis axis;
  const T *scale, *x;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const T factor = scale[run % axis.channels];
    for (int64_t i = run * axis.inner; i < (run + 1) * axis.inner; ++i) y[i] = x[i] * factor;
  }
};

template <typename T>
struct AddChannelProductsOp {
  ChannelAxis axis;
  const T *a, *b;
  T* sums;
  CARAFE_HD void operator()(int64_t c) const {
    T sum = 0;
    for (int64_t o = 0; o < axis.outer; ++o) {
      const int64_t first = (o * axis.channels + c) * axis.inner;
      T part = 0;
      for (int64_t i = first; i < first + axis.inner; ++i) part += a[i] * b[i];
      sum += part;
    }
    sums[c] += sum;
  }
};

template <typename T>
struct ChannelStatisticsOp {
  ChannelAxis axis;
  const T* x;
  T *mean, *variance;
  CARAFE_HD void operator()(int64_t c) const {
    const T n = static_cast<T>(axis.outer * axis.inner);
    T sum = 0;
    for (int64_t o = 0; o < axis.outer; ++o) {
      const T* run = x + (o * axis.channels + c) * axis.inner;
      T part = 0;
      for (int64_t i = 0; i < axis.inner; ++i) part += run[i];
      sum += part;
    }
    const T middle = sum / n;
    T squares = 0;
    for (int64_t o = 0; o < axis.outer; ++o) {
      const T* run = x + (o * axis.channels + c) * axis.inner;
      T part = 0;
      for (int64_t i = 0; i < axis.inner; ++i) part += (run[i] - middle) * (run[i] - middle);
      squares += part;
    }
    mean[c] = middle;
    variance[c] = squares / n;
  }
};

template <typename T>
struct NormalizeChannelsOp {
  ChannelAxis axis;
  const T *mean, *factor, *x;
  T* y;
  CARAFE_HD void operator()(int64_t run) const {
    const T middle = mean[run % axis.channels], scale = factor[run % axis.channels];
    for (int64_t i = run * axis.inner; i < (run + 1) * axis.inner; ++i) {
      y[i] = (x[i] - middle) * scale;
    }
  }
};

template <typename T>
struct InverseDeviationOp {
  T eps;
  const T* variance;
  T* factor;
  CARAFE_HD void operator()(int64_t i) const { factor[i] = T(1) / std::sqrt(variance[i] + eps); }
};

template <typename T>
struct NormalizeBackwardByOp {
  ChannelAxis axis;
  const T *factor, *y, *dy_mean, *dyy_mean, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t run) const {
    const int64_t c = run % axis.channels;
    for (int64_t i = run * axis.inner; i < (run + 1) * axis.inner; ++i) {
      dx[i] = (dy[i] - dy_mean[c] - y[i] * dyy_mean[c]) * factor[c];
    }
  }
};

template <typename T>
struct NormalizeBackwardOp {
  ChannelAxis axis;
  const T *factor, *y, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t c) const {
    const T n = static_cast<T>(axis.outer * axis.inner);
    T sum = 0, product = 0;
    for (int64_t o = 0; o < axis.outer; ++o) {
      const int64_t first = (o * axis.channels + c) * axis.inner;
      T sum_part = 0, product_part = 0;
      for (int64_t i = first; i < first + axis.inner; ++i) {
        sum_part += dy[i];
        product_part += dy[i] * y[i];
      }
      sum += sum_part;
      product += product_part;
    }
    sum /= n;
    product /= n;
    for (int64_t o = 0; o < axis.outer; ++o) {
      const int64_t first = (o * axis.channels + c) * axis.inner;
      for (int64_t i = first; i < first + axis.inner; ++i) {
        dx[i] = (dy[i] - sum - y[i] * product) * factor[c];
      }
    }
  }
};

template <typename T>
struct AccumulateOp {
  T keep, weight;
  const T* x;
  T* average;
  CARAFE_HD void operator()(int64_t i) const { average[i] = keep * average[i] + weight * x[i]; }
};

template <typename T>
struct NormalizeRowsOp {
  int64_t width;
  bool variance;
  T eps;
  const T* x;
  T *y, *factor;
  CARAFE_HD void operator()(int64_t r) const {
    const T* in = x + r * width;
    T* out = y + r * width;
    T sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += in[i];
    const T mean = sum / static_cast<T>(width);
    T squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      out[i] = in[i] - mean;
      squares += out[i] * out[i];
    }
    factor[r] = variance ? 1 / (std::sqrt(squares / static_cast<T>(width)) + eps) : T(1);
    if (!variance) return;
    for (int64_t i = 0; i < width; ++i) out[i] *= factor[r];
  }
};

template <typename T>
struct NormalizeRowsBackwardOp {
  int64_t width;
  bool variance;
  const T *factor, *y, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t r) const {
    T sum = 0, product = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      sum += dy[i];
      product += dy[i] * y[i];
    }
    sum /= static_cast<T>(width);
    product = variance ? product / static_cast<T>(width) : T(0);
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      dx[i] = (dy[i] - sum - y[i] * product) * factor[r];
    }
  }
};

}  // namespace

template <typename T>
void ScaleChannels(Stream& stream, ChannelAxis axis, const T* scale, const T* x, T* y) {
  ParallelFor(stream, axis.outer * axis.channels, ScaleChannelsOp<T>{axis, scale, x, y},
              axis.inner);
}
template <typename T>
void AddChannelProducts(Stream& stream, ChannelAxis axis, const T* a, const T* b, T* sums) {
  ParallelFor(stream, axis.channels, AddChannelProductsOp<T>{axis, a, b, sums}, axis.per_channel());
}
template <typename T>
void ChannelStatistics(Stream& stream, ChannelAxis axis, const T* x, T* mean, T* variance) {
  ParallelFor(stream, axis.channels, ChannelStatisticsOp<T>{axis, x, mean, variance},
              2 * axis.per_channel());
}
template <typename T>
void NormalizeChannels(Stream& stream, ChannelAxis axis, const T* mean, const T* factor, const T* x,
                       T* y) {
  ParallelFor(stream, axis.outer * axis.channels, NormalizeChannelsOp<T>{axis, mean, factor, x, y},
              axis.inner);
}
template <typename T>
void InverseDeviation(Stream& stream, int64_t n, T eps, const T* variance, T* factor) {
  ParallelFor(stream, n, InverseDeviationOp<T>{eps, variance, factor});
}
template <typename T>
void NormalizeBackward(Stream& stream, ChannelAxis axis, const T* factor, const T* y, const T* dy,
                       T* dx) {
  ParallelFor(stream, axis.channels, NormalizeBackwardOp<T>{axis, factor, y, dy, dx},
              3 * axis.per_channel());
}
template <typename T>
void NormalizeBackwardBy(Stream& stream, ChannelAxis axis, const T* factor, const T* y,
                         const T* dy_mean, const T* dyy_mean, const T* dy, T* dx) {
  ParallelFor(stream, axis.outer * axis.channels,
              NormalizeBackwardByOp<T>{axis, factor, y, dy_mean, dyy_mean, dy, dx}, axis.inner);
}
template <typename T>
void Accumulate(Stream& stream, int64_t n, T keep, T weight, const T* x, T* average) {
  ParallelFor(stream, n, AccumulateOp<T>{keep, weight, x, average});
}
template <typename T>
void NormalizeRows(Stream& stream, int64_t rows, int64_t width, bool variance, T eps, const T* x,
                   T* y, T* factor) {
  ParallelFor(stream, rows, NormalizeRowsOp<T>{width, variance, eps, x, y, factor}, 3 * width);
}
template <typename T>
void NormalizeRowsBackward(Stream& stream, int64_t rows, int64_t width, bool variance,
                           const T* factor, const T* y, const T* dy, T* dx) {
  ParallelFor(stream, rows, NormalizeRowsBackwardOp<T>{width, variance, factor, y, dy, dx},
              2 * width);
}

#define CARAFE_INSTANTIATE(T)                                                                 \
  template void ScaleChannels<T>(Stream&, ChannelAxis, const T*, const T*, T*);               \
  template void AddChannelProducts<T>(Stream&, ChannelAxis, const T*, const T*, T*);          \
  template void ChannelStatistics<T>(Stream&, ChannelAxis, const T*, T*, T*);                 \
  template void NormalizeChannels<T>(Stream&, ChannelAxis, const T*, const T*, const T*, T*); \
  template void InverseDeviation<T>(Stream&, int64_t, T, const T*, T*);                       \
  template void NormalizeBackward<T>(Stream&, ChannelAxis, const T*, const T*, const T*, T*); \
  template void NormalizeBackwardBy<T>(Stream&, ChannelAxis, const T*, const T*, const T*,    \
                                       const T*, const T*, T*);                               \
  template void Accumulate<T>(Stream&, int64_t, T, T, const T*, T*);                          \
  template void NormalizeRows<T>(Stream&, int64_t, int64_t, bool, T, const T*, T*, T*);       \
  template void NormalizeRowsBackward<T>(Stream&, int64_t, int64_t, bool, const T*, const T*, \
                                         const T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
