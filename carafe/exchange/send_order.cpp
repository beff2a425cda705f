#include "carafe/exchange/send_order.h"

#include <algorithm>
#include <cmath>

namespace carafe {
namespace {

constexpr int64_t kLevels = 4096;  // of magnitude; 0 is the largest
constexpr double kLevelsPerOctave = 16;

template <typename T>
double Squares(const T* x, int64_t count) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i)
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return squares;
}

// By |update| / |value| on a scale of powers of 2: its place in the order is what counts.
template <typename T>
int64_t Level(const T* update, const T* value, int64_t count) {
  const double change = Squares(update, count), size = Squares(value, count);
  if (change == 0) return kLevels - 1;
  if (size == 0 || !std::isfinite(change) || !std::isfinite(size)) return 0;
  const double octaves = std::log2(change / size) / 2;
  const double level = static_cast<double>(kLevels / 2) - kLevelsPerOctave * octaves;
  return static_cast<int64_t>(std::clamp(level, 0.0, static_cast<double>(kLevels - 1)));
}

// splitmix64: neighbouring numbers give unrelated ones.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

template <typename T>
int64_t SendPriority(SendOrder order, int64_t clock, const T* update, const T* value, int64_t count,
                     uint64_t random) {
  switch (order) {
    case SendOrder::kFifo:
      return 1;
    case SendOrder::kRandom:
      return 1 + static_cast<int64_t>(Mix(random) >> 32);
    case SendOrder::kRelativeMagnitude:
      return 1 + Level(update, value, count);
    case SendOrder::kFifoThenMagnitude:
      return clock * (kLevels + 1) + 1 + Level(update, value, count);
  }
  return 1;
}

int64_t ValuePriority(SendOrder order, int64_t clock) {
  switch (order) {
    case SendOrder::kFifo:
      return 1;
    case SendOrder::kFifoThenMagnitude:
      return clock * (kLevels + 1);
    default:
      return 0;
  }
}

template int64_t SendPriority(SendOrder, int64_t, const float*, const float*, int64_t, uint64_t);
template int64_t SendPriority(SendOrder, int64_t, const double*, const double*, int64_t, uint64_t);

}  // namespace carafe
