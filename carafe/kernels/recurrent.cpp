#include "carafe/kernels/recurrent.h"

#include <cmath>
#include <type_traits>

#include "carafe/kernels/cpu_lstm.h"
#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
CARAFE_HD inline T Sigmoid(T x) {
  return T(0.5) * std::tanh(T(0.5) * x) + T(0.5);
}

template <typename T>
struct ScaleRowsOp {
  int64_t width;
  const T *factor, *x;
  T* y;
  CARAFE_HD void operator()(int64_t r) const {
    for (int64_t i = r * width; i < (r + 1) * width; ++i) y[i] = factor[r] * x[i];
  }
};

template <typename T>
struct LstmForwardOp {  // one cell
  int64_t width;
  const T *c_prev, *cont;
  T *gates, *c, *h;
  CARAFE_HD void operator()(int64_t cell) const {
    const int64_t row = cell / width, i = cell % width;
    T* gate = gates + row * 4 * width + i;
    const T in = Sigmoid(gate[0]);
    const T forget = cont[row] == 0 ? T(0) : cont[row] * Sigmoid(gate[width]);
    const T out = Sigmoid(gate[2 * width]);
    const T value = std::tanh(gate[3 * width]);
    gate[0] = in;
    gate[width] = forget;
    gate[2 * width] = out;
    gate[3 * width] = value;
    c[cell] = forget * c_prev[cell] + in * value;
    h[cell] = out * std::tanh(c[cell]);
  }
};

template <typename T>
struct LstmBackwardOp {
  int64_t width;
  const T *c_prev, *gates, *c, *dh, *dc;
  T *dc_prev, *dgates;
  CARAFE_HD void operator()(int64_t cell) const {
    const int64_t row = cell / width, i = cell % width;
    const T* gate = gates + row * 4 * width + i;
    T* dgate = dgates + row * 4 * width + i;
    const T in = gate[0], forget = gate[width], out = gate[2 * width], value = gate[3 * width];
    const T tanh_c = std::tanh(c[cell]);
    const T term = dc[cell] + dh[cell] * out * (1 - tanh_c * tanh_c);
    dgate[0] = term * value * in * (1 - in);
    dgate[width] = term * c_prev[cell] * forget * (1 - forget);
    dgate[2 * width] = dh[cell] * tanh_c * out * (1 - out);
    dgate[3 * width] = term * in * (1 - value * value);
    dc_prev[cell] = term * forget;
  }
};

}  // namespace

template <typename T>
void ScaleRows(Stream& stream, int64_t rows, int64_t width, const T* factor, const T* x, T* y) {
  ParallelFor(stream, rows, ScaleRowsOp<T>{width, factor, x, y}, width);
}
template <typename T>
void LstmForward(Stream& stream, int64_t rows, int64_t width, const T* c_prev, const T* cont,
                 T* gates, T* c, T* h) {
  if constexpr (std::is_same_v<T, float>) {
    if (stream.on_cpu()) {
      return CpuLstmForward(stream, rows, width, c_prev, cont, gates, c, h);
    }
  }
  ParallelFor(stream, rows * width, LstmForwardOp<T>{width, c_prev, cont, gates, c, h}, 40);
}
template <typename T>
void LstmBackward(Stream& stream, int64_t rows, int64_t width, const T* c_prev, const T* gates,
                  const T* c, const T* dh, const T* dc, T* dc_prev, T* dgates) {
  if constexpr (std::is_same_v<T, float>) {
    if (stream.on_cpu()) {
      return CpuLstmBackward(stream, rows, width, c_prev, gates, c, dh, dc, dc_prev, dgates);
    }
  }
  ParallelFor(stream, rows * width,
              LstmBackwardOp<T>{width, c_prev, gates, c, dh, dc, dc_prev, dgates}, 20);
}

#define CARAFE_INSTANTIATE(T)                                                                      \
  template void ScaleRows<T>(Stream&, int64_t, int64_t, const T*, const T*, T*);                   \
  template void LstmForward<T>(Stream&, int64_t, int64_t, const T*, const T*, T*, T*, T*);         \
  template void LstmBackward<T>(Stream&, int64_t, int64_t, const T*, const T*, const T*, const T*, \
                                const T*, T*, T*);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
