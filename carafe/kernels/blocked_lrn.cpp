#include "carafe/kernels/blocked_lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/float8.h"
#include "carafe/kernels/cpu_for.h"

namespace carafe {
namespace {

constexpr int64_t kLanes = kBlockChannels;

// q = s^-1/4 by Newton's method, q' = q (5 - s q^4) / 4, from a guess that halves the exponent
// twice (at most 5% off: three steps reach the last bits). Only products and sums: several times as
// fast as two square roots and a division.
inline Float8 InverseFourthRoot(Float8 s) {
  Int8 bits;
  std::memcpy(&bits, &s, sizeof bits);
  bits = All8(0x4f58cae5) - (bits >> 2);
  Float8 q;
  std::memcpy(&q, &bits, sizeof q);
  const Float8 quarter = s * All8(-0.25f);
  for (int i = 0; i < 3; ++i) {
    const Float8 square = q * q;
    q = q * MulAdd8(quarter, square * square, All8(1.25f));
  }
  return q;
}

inline Float8 PowerOf(Float8 s, float exponent) {
  float lanes[kLanes];
  Store8(lanes, s);
  for (float& lane : lanes) lane = std::pow(lane, exponent);
  return Load8(lanes);
}

// s^-beta, and in `inverse` 1 / s.
template <bool kThreeQuarters>
inline Float8 NegativePower(Float8 s, float beta, Float8* inverse) {
  if (kThreeQuarters) {
    const Float8 q = InverseFourthRoot(s);
    const Float8 cube = q * q * q;
    *inverse = cube * q;
    return cube;
  }
  *inverse = All8(1.0f) / s;
  return PowerOf(s, -beta);
}

// Lanes moved by n places: lane i of ShiftUp is lane i - n, and what enters comes from the block
// of the lower channels; ShiftDown is its mirror.
template <int n>
inline Float8 ShiftUp(Float8 lower, Float8 v) {
  return __builtin_shufflevector(lower, v, 8 - n, 9 - n, 10 - n, 11 - n, 12 - n, 13 - n, 14 - n,
                                 15 - n);
}
template <int n>
inline Float8 ShiftDown(Float8 v, Float8 upper) {
  return __builtin_shufflevector(v, upper, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
}

// The sums over the channels at most kHalf away, of three blocks that follow each other.
template <int kHalf>
inline Float8 WindowSum(Float8 lower, Float8 v, Float8 upper) {
  Float8 sum = v;
  sum += ShiftUp<1>(lower, v) + ShiftDown<1>(v, upper);
  if constexpr (kHalf >= 2) sum += ShiftUp<2>(lower, v) + ShiftDown<2>(v, upper);
  if constexpr (kHalf >= 3) sum += ShiftUp<3>(lower, v) + ShiftDown<3>(v, upper);
  if constexpr (kHalf >= 4) sum += ShiftUp<4>(lower, v) + ShiftDown<4>(v, upper);
  return sum;
}
template <>
inline Float8 WindowSum<0>(Float8, Float8 v, Float8) {
  return v;
}

// A piece of an image: `count` pixels of all its channels. Small enough for what is computed on the
// way to stay in the near caches, long enough for the reads of each block to run on.
constexpr int64_t kPiece = 32;

// Calls use(offset of the vector, x there, s there) for the pixels of one block.
template <int kHalf, typename Use>
inline void ForScales(const BlockedGeometry& g, const LrnNumbers& n, int64_t block, int64_t count,
                      const float* x, const Use& use) {
  const int64_t step = g.plane * kLanes;
  const Float8 k = All8(n.k), a = All8(n.a), zero = All8(0.0f);
  const bool has_lower = block > 0, has_upper = block + 1 < g.blocks();
  for (int64_t p = 0; p < count; ++p) {
    const int64_t at = block * step + p * kLanes;
    const Float8 v = Load8(x + at);
    const Float8 lower = has_lower ? Load8(x + at - step) : zero;
    const Float8 upper = has_upper ? Load8(x + at + step) : zero;
    use(at, v, MulAdd8(a, WindowSum<kHalf>(lower * lower, v * v, upper * upper), k));
  }
}

template <int kHalf, bool kThreeQuarters>
void AcrossForwardPiece(const BlockedGeometry& g, const LrnNumbers& n, int64_t count,
                        const float* x, float* y) {
  for (int64_t b = 0; b < g.blocks(); ++b) {
    ForScales<kHalf>(g, n, b, count, x, [&](int64_t at, Float8 v, Float8 s) {
      Float8 inverse;
      Store8(y + at, v * NegativePower<kThreeQuarters>(s, n.beta, &inverse));
    });
  }
}

// dx = dy s^-beta - 2 a beta x * (sum of dy x s^-beta / s around). `work` has room for the ratios
// dy x s^-beta / s of a piece, with a block of zeros before and after them, and for the first
// terms: BackwardWork floats.
template <int kHalf, bool kThreeQuarters>
void AcrossBackwardPiece(const BlockedGeometry& g, const LrnNumbers& n, int64_t count,
                         const float* x, const float* dy, float* dx, float* work) {
  const int64_t step = g.plane * kLanes, blocks = g.blocks(), piece = kPiece * kLanes;
  const Float8 factor = All8(2 * n.a * n.beta);
  float* ratios = work + piece;
  float* terms = ratios + (blocks + 1) * piece;
  std::fill(work, ratios, 0.0f);
  std::fill(ratios + blocks * piece, terms, 0.0f);
  for (int64_t b = 0; b < blocks; ++b) {
    ForScales<kHalf>(g, n, b, count, x, [&](int64_t at, Float8 v, Float8 s) {
      Float8 inverse;
      const Float8 power = NegativePower<kThreeQuarters>(s, n.beta, &inverse);
      const Float8 term = Load8(dy + at) * power;
      const int64_t i = b * piece + at - b * step;
      Store8(terms + i, term);
      Store8(ratios + i, term * v * inverse);
    });
  }
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t i = b * piece; i < b * piece + count * kLanes; i += kLanes) {
      const int64_t at = b * step + i - b * piece;
      const Float8 sum =
          WindowSum<kHalf>(Load8(ratios + i - piece), Load8(ratios + i), Load8(ratios + i + piece));
      Store8(dx + at, Load8(terms + i) - factor * Load8(x + at) * sum);
    }
  }
}
int64_t BackwardWork(const BlockedGeometry& g) { return (2 * g.blocks() + 2) * kPiece * kLanes; }

// Calls run(image, first pixel, pixels) for all pieces of all images.
template <typename Run>
void ForPieces(Stream& stream, const BlockedGeometry& g, const Run& run) {
  const int64_t pieces = (g.plane + kPiece - 1) / kPiece;
  CpuFor(stream, g.images * pieces, kPiece * g.channels * 4, [&](int64_t i) {
    const int64_t first = i % pieces * kPiece;
    run(i / pieces, first, std::min(kPiece, g.plane - first));
  });
}

// Calls run(integral constants of half and of beta == 3/4).
template <typename Run>
void Dispatch(int64_t half, float beta, const Run& run) {
  const auto with_half = [&](auto h) {
    if (beta == 0.75f) return run(h, std::true_type());
    run(h, std::false_type());
  };
  switch (half) {
    case 0:
      return with_half(std::integral_constant<int, 0>());
    case 1:
      return with_half(std::integral_constant<int, 1>());
    case 2:
      return with_half(std::integral_constant<int, 2>());
    case 3:
      return with_half(std::integral_constant<int, 3>());
    case 4:
      return with_half(std::integral_constant<int, 4>());
  }
  throw InternalError("the window of a blocked LRN is too wide");
}

// y = sums of f(pixel) over the pixels at most `half` rows and columns away. `rows` holds the sums
// along rows of the whole plane.
template <typename F>
void SumSquareWindows(int64_t height, int64_t width, int64_t half, const F& f, float* rows,
                      float* y) {
  for (int64_t h = 0; h < height; ++h) {
    for (int64_t w = 0; w < width; ++w) {
      const int64_t last = std::min(w + half, width - 1);
      Float8 sum = All8(0.0f);
      for (int64_t i = std::max<int64_t>(w - half, 0); i <= last; ++i) sum += f(h * width + i);
      Store8(rows + (h * width + w) * kLanes, sum);
    }
  }
  for (int64_t h = 0; h < height; ++h) {
    const int64_t first = std::max<int64_t>(h - half, 0), last = std::min(h + half, height - 1);
    for (int64_t w = 0; w < width; ++w) {
      Float8 sum = All8(0.0f);
      for (int64_t i = first; i <= last; ++i) sum += Load8(rows + (i * width + w) * kLanes);
      Store8(y + (h * width + w) * kLanes, sum);
    }
  }
}

// Scratch of the calling thread; grows, and is given back when the thread ends.
float* Scratch(int64_t count) {
  thread_local std::vector<float> scratch;
  if (scratch.size() < static_cast<size_t>(count)) scratch.resize(static_cast<size_t>(count));
  return scratch.data();
}

template <bool kThreeQuarters>
void WithinForwardPlane(int64_t height, int64_t width, int64_t half, const LrnNumbers& n,
                        const float* x, float* y) {
  const int64_t size = height * width * kLanes;
  float* rows = Scratch(2 * size);
  float* sums = rows + size;
  const auto square = [&](int64_t i) {
    const Float8 v = Load8(x + i * kLanes);
    return v * v;
  };
  SumSquareWindows(height, width, half, square, rows, sums);
  for (int64_t i = 0; i < size; i += kLanes) {
    const Float8 s = All8(n.k) + All8(n.a) * Load8(sums + i);
    Float8 inverse;
    Store8(y + i, Load8(x + i) * NegativePower<kThreeQuarters>(s, n.beta, &inverse));
  }
}

template <bool kThreeQuarters>
void WithinBackwardPlane(int64_t height, int64_t width, int64_t half, const LrnNumbers& n,
                         const float* x, const float* dy, float* dx) {
  const int64_t size = height * width * kLanes;
  float* rows = Scratch(4 * size);
  float *sums = rows + size, *ratios = sums + size, *terms = ratios + size;
  const auto square = [&](int64_t i) {
    const Float8 v = Load8(x + i * kLanes);
    return v * v;
  };
  SumSquareWindows(height, width, half, square, rows, sums);
  for (int64_t i = 0; i < size; i += kLanes) {
    const Float8 s = All8(n.k) + All8(n.a) * Load8(sums + i);
    Float8 inverse;
    const Float8 power = NegativePower<kThreeQuarters>(s, n.beta, &inverse);
    const Float8 term = Load8(dy + i) * power;
    Store8(terms + i, term);
    Store8(ratios + i, term * Load8(x + i) * inverse);
  }
  SumSquareWindows(
      height, width, half, [&](int64_t i) { return Load8(ratios + i * kLanes); }, rows, sums);
  const Float8 factor = All8(2 * n.a * n.beta);
  for (int64_t i = 0; i < size; i += kLanes) {
    Store8(dx + i, Load8(terms + i) - factor * Load8(x + i) * Load8(sums + i));
  }
}

}  // namespace

void BlockedLrnAcrossForward(Stream& stream, const BlockedGeometry& g, int64_t half,
                             const LrnNumbers& numbers, const float* x, float* y) {
  const int64_t image = g.blocks() * g.plane * kLanes;
  Dispatch(half, numbers.beta, [&](auto h, auto three_quarters) {
    ForPieces(stream, g, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t at = n * image + first * kLanes;
      AcrossForwardPiece<h(), three_quarters()>(g, numbers, count, x + at, y + at);
    });
  });
}

void BlockedLrnAcrossBackward(Stream& stream, const BlockedGeometry& g, int64_t half,
                              const LrnNumbers& numbers, const float* x, const float* dy,
                              float* dx) {
  const int64_t image = g.blocks() * g.plane * kLanes;
  Dispatch(half, numbers.beta, [&](auto h, auto three_quarters) {
    ForPieces(stream, g, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t at = n * image + first * kLanes;
      AcrossBackwardPiece<h(), three_quarters()>(g, numbers, count, x + at, dy + at, dx + at,
                                                 Scratch(BackwardWork(g)));
    });
  });
}

void BlockedLrnWithinForward(Stream& stream, const BlockedGeometry& g, int64_t width, int64_t half,
                             const LrnNumbers& numbers, const float* x, float* y) {
  const int64_t plane = g.plane * kLanes, height = g.plane / width;
  CpuFor(stream, g.images * g.blocks(), plane * 4, [&](int64_t i) {
    if (numbers.beta == 0.75f) {
      return WithinForwardPlane<true>(height, width, half, numbers, x + i * plane, y + i * plane);
    }
    WithinForwardPlane<false>(height, width, half, numbers, x + i * plane, y + i * plane);
  });
}

void BlockedLrnWithinBackward(Stream& stream, const BlockedGeometry& g, int64_t width, int64_t half,
                              const LrnNumbers& numbers, const float* x, const float* dy,
                              float* dx) {
  const int64_t plane = g.plane * kLanes, height = g.plane / width;
  CpuFor(stream, g.images * g.blocks(), plane * 8, [&](int64_t i) {
    const int64_t at = i * plane;
    if (numbers.beta == 0.75f) {
      return WithinBackwardPlane<true>(height, width, half, numbers, x + at, dy + at, dx + at);
    }
    WithinBackwardPlane<false>(height, width, half, numbers, x + at, dy + at, dx + at);
  });
}

}  // namespace carafe
