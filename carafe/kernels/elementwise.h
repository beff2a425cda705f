// Functions of one number, applied to every element, and their derivatives.
#pragma once

#include <cstdint>

#include "carafe/core/stream.h"

namespace carafe {

enum class Function {
  kAbs,        // |x|
  kBnll,       // log(1 + e^x)
  kClip,       // max(a, min(x, b))
  kElu,        // x > 0 ? x : a (e^x - 1)
  kExp,        // a e^(b x)
  kLog,        // a log(b x + c)
  kPower,      // (b x + c)^a
  kRelu6,      // max(0, min(x, a))
  kSigmoid,    // 1 / (1 + e^-x)
  kSwish,      // x / (1 + e^-(a x))
  kTanh,       // tanh x
  kThreshold,  // x > a ? 1 : 0; no derivative
};

// A function with its numbers.
template <typename T>
struct FunctionOf {
  Function function;
  T a = 0, b = 0, c = 0;
};

// y = f(x); x may be y.
template <typename T>
void ApplyFunction(Stream& stream, const FunctionOf<T>& f, int64_t n, const T* x, T* y);
// dx = dy f'(x), y being f(x); dx may be dy. Some derivatives are formed from y alone: see
// DerivativeReadsInput.
template <typename T>
void ApplyDerivative(Stream& stream, const FunctionOf<T>& f, int64_t n, const T* x, const T* y,
                     const T* dy, T* dx);

// Whether the derivative needs x itself, so that a layer that runs in place must keep a copy of it.
template <typename T>
bool DerivativeReadsInput(const FunctionOf<T>& f);

}  // namespace carafe
