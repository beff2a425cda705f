#include "carafe/kernels/elementwise.h"

#include <cmath>
#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/kernels/parallel_for.h"

namespace carafe {
namespace {

template <typename T>
CARAFE_HD inline T Logistic(T x) {  // in this form it cannot overflow
  return T(0.5) * std::tanh(T(0.5) * x) + T(0.5);
}

// Each function: its value, and its slope from x and y.
template <typename T>
struct Abs {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x < 0 ? -x : x; }
  CARAFE_HD T Slope(T x, T) const { return x > 0 ? T(1) : (x < 0 ? T(-1) : T(0)); }
};
template <typename T>
struct Bnll {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const {
    return x > 0 ? x + std::log(1 + std::exp(-x)) : std::log(1 + std::exp(x));
  }
  CARAFE_HD T Slope(T x, T) const {
    const T e = std::exp(x < 50 ? x : T(50));
    return e / (e + 1);
  }
};
template <typename T>
struct Clip {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x < f.a ? f.a : (x > f.b ? f.b : x); }
  CARAFE_HD T Slope(T x, T) const { return x >= f.a && x <= f.b ? T(1) : T(0); }
};
template <typename T>
struct Elu {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x > 0 ? x : f.a * (std::exp(x) - 1); }
  CARAFE_HD T Slope(T x, T y) const { return x > 0 ? T(1) : f.a + y; }
};
template <typename T>
struct Exponential {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return f.a * std::exp(f.b * x); }
  CARAFE_HD T Slope(T, T y) const { return f.b * y; }
};
template <typename T>
struct Logarithm {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return f.a * std::log(f.b * x + f.c); }
  CARAFE_HD T Slope(T x, T) const { return f.a * f.b / (f.b * x + f.c); }
};
template <typename T>
struct Power {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const {
    const T v = f.b * x + f.c;
    if (f.a == 1) return v;
    if (f.a == 2) return v * v;
    return std::pow(v, f.a);
  }
  CARAFE_HD T Slope(T x, T) const {
    const T scale = f.a * f.b;
    if (scale == 0 || f.a == 1) return scale;
    const T v = f.b * x + f.c;
    return scale * (f.a == 2 ? v : std::pow(v, f.a - 1));
  }
};
template <typename T>
struct Relu6 {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x > 0 ? (x < f.a ? x : f.a) : T(0); }
  CARAFE_HD T Slope(T, T y) const { return y > 0 && y < f.a ? T(1) : T(0); }
};
template <typename T>
struct Sigmoid {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return Logistic(x); }
  CARAFE_HD T Slope(T, T y) const { return y * (1 - y); }
};
template <typename T>
struct Swish {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x * Logistic(f.a * x); }
  CARAFE_HD T Slope(T x, T y) const { return f.a * y + Logistic(f.a * x) * (1 - f.a * y); }
};
template <typename T>
struct Tanh {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return std::tanh(x); }
  CARAFE_HD T Slope(T, T y) const { return 1 - y * y; }
};
template <typename T>
struct Threshold {
  FunctionOf<T> f;
  CARAFE_HD T Value(T x) const { return x > f.a ? T(1) : T(0); }
  CARAFE_HD T Slope(T, T) const { return 0; }
};

template <typename F, typename T>
struct ValueOp {
  F f;
  const T* x;
  T* y;
  CARAFE_HD void operator()(int64_t i) const { y[i] = f.Value(x[i]); }
};
template <typename F, typename T>
struct SlopeOp {
  F f;
  const T *x, *y, *dy;
  T* dx;
  CARAFE_HD void operator()(int64_t i) const { dx[i] = dy[i] * f.Slope(x[i], y[i]); }
};

// Calls run(F{f}) with the functor of the function.
template <typename T, typename Run>
void Dispatch(const FunctionOf<T>& f, const Run& run) {
  switch (f.function) {
    case Function::kAbs:
      return run(Abs<T>{f});
    case Function::kBnll:
      return run(Bnll<T>{f});
    case Function::kClip:
      return run(Clip<T>{f});
    case Function::kElu:
      return run(Elu<T>{f});
    case Function::kExp:
      return run(Exponential<T>{f});
    case Function::kLog:
      return run(Logarithm<T>{f});
    case Function::kPower:
      return run(Power<T>{f});
    case Function::kRelu6:
      return run(Relu6<T>{f});
    case Function::kSigmoid:
      return run(Sigmoid<T>{f});
    case Function::kSwish:
      return run(Swish<T>{f});
    case Function::kTanh:
      return run(Tanh<T>{f});
    case Function::kThreshold:
      return run(Threshold<T>{f});
  }
  throw InternalError("unknown function");
}

constexpr int64_t kCost = 8;  // of a transcendental function, in elements touched

}  // namespace

template <typename T>
void ApplyFunction(Stream& stream, const FunctionOf<T>& f, int64_t n, const T* x, T* y) {
  Dispatch(f, [&](const auto& g) {
    ParallelFor(stream, n, ValueOp<std::decay_t<decltype(g)>, T>{g, x, y}, kCost);
  });
}

template <typename T>
void ApplyDerivative(Stream& stream, const FunctionOf<T>& f, int64_t n, const T* x, const T* y,
                     const T* dy, T* dx) {
  Dispatch(f, [&](const auto& g) {
    ParallelFor(stream, n, SlopeOp<std::decay_t<decltype(g)>, T>{g, x, y, dy, dx}, kCost);
  });
}

template <typename T>
bool DerivativeReadsInput(const FunctionOf<T>& f) {
  switch (f.function) {
    case Function::kExp:
    case Function::kRelu6:
    case Function::kSigmoid:
    case Function::kTanh:
    case Function::kThreshold:
      return false;
    case Function::kElu:
      return f.a < 0;  // else y has the sign of x
    case Function::kPower:
      return f.a != 1 && f.a * f.b != 0;
    default:
      return true;
  }
}

#define CARAFE_INSTANTIATE(T)                                                                  \
  template void ApplyFunction<T>(Stream&, const FunctionOf<T>&, int64_t, const T*, T*);        \
  template void ApplyDerivative<T>(Stream&, const FunctionOf<T>&, int64_t, const T*, const T*, \
                                   const T*, T*);                                              \
  template bool DerivativeReadsInput<T>(const FunctionOf<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
