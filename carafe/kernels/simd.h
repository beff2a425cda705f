// Vec8: eight floats that are added, multiplied and compared lane by lane; one lane per channel of
// an nChw8c block. AVX2 where the compiler may use it; elsewhere two 4-lane vectors of GCC's and
// clang's extension, which become SSE, NEON or plain code. Why not a library:
// docs/decisions/0031-vec8.md.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

// For the small functions of an inner loop, whose arrays of vectors must become registers.
#define CARAFE_INLINE inline __attribute__((always_inline))
#define CARAFE_INLINE_LAMBDA __attribute__((always_inline))

namespace carafe {

// Calls f(std::integral_constant<int, 0>), .. f(.. kCount - 1), unrolled.
template <int kCount, typename F>
CARAFE_INLINE void Unroll(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) CARAFE_INLINE_LAMBDA {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

struct PortableVec8 {
  typedef float Half __attribute__((vector_size(16)));
  Half low, high;

  static CARAFE_INLINE PortableVec8 Load(const float* p) {
    PortableVec8 v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static CARAFE_INLINE PortableVec8 Broadcast(float x) {
    const Half half = {x, x, x, x};
    return {half, half};
  }
  CARAFE_INLINE void Store(float* p) const { std::memcpy(p, this, sizeof *this); }
};
CARAFE_INLINE PortableVec8 operator+(PortableVec8 a, PortableVec8 b) {
  return {a.low + b.low, a.high + b.high};
}
CARAFE_INLINE PortableVec8 operator-(PortableVec8 a, PortableVec8 b) {
  return {a.low - b.low, a.high - b.high};
}
CARAFE_INLINE PortableVec8 operator*(PortableVec8 a, PortableVec8 b) {
  return {a.low * b.low, a.high * b.high};
}
// a * b + c; rounded once or twice, as the CPU can.
CARAFE_INLINE PortableVec8 MulAdd(PortableVec8 a, PortableVec8 b, PortableVec8 c) {
  return a * b + c;
}
// The larger of each pair; b where one is not a number.
CARAFE_INLINE PortableVec8 Max(PortableVec8 a, PortableVec8 b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
// Tells the compiler to hold v in a register; it may load it anew for every use otherwise.
CARAFE_INLINE void Hold(PortableVec8&) {}
// rows[i][j] <-> rows[j][i]
CARAFE_INLINE void Transpose(PortableVec8 (&rows)[8]) {
  float from[8][8], to[8][8];
  std::memcpy(from, rows, sizeof from);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) to[j][i] = from[i][j];
  }
  std::memcpy(rows, to, sizeof to);
}

#if defined(__AVX2__) && defined(__FMA__)

struct Avx2Vec8 {
  __m256 v;

  static CARAFE_INLINE Avx2Vec8 Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static CARAFE_INLINE Avx2Vec8 Broadcast(float x) { return {_mm256_set1_ps(x)}; }
  CARAFE_INLINE void Store(float* p) const { _mm256_storeu_ps(p, v); }
};
CARAFE_INLINE Avx2Vec8 operator+(Avx2Vec8 a, Avx2Vec8 b) { return {_mm256_add_ps(a.v, b.v)}; }
CARAFE_INLINE Avx2Vec8 operator-(Avx2Vec8 a, Avx2Vec8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
CARAFE_INLINE Avx2Vec8 operator*(Avx2Vec8 a, Avx2Vec8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
CARAFE_INLINE Avx2Vec8 MulAdd(Avx2Vec8 a, Avx2Vec8 b, Avx2Vec8 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
CARAFE_INLINE Avx2Vec8 Max(Avx2Vec8 a, Avx2Vec8 b) { return {_mm256_max_ps(a.v, b.v)}; }
CARAFE_INLINE void Hold(Avx2Vec8& a) { asm("" : "+x"(a.v)); }
CARAFE_INLINE void Transpose(Avx2Vec8 (&rows)[8]) {
  // Pairs of rows, then 4x4 blocks inside the 128-bit halves, then the halves.
  __m256 pair[8], quad[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(rows[i].v, rows[i + 1].v);
    pair[i + 1] = _mm256_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    rows[i + 4].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}
using Vec8 = Avx2Vec8;

#else
using Vec8 = PortableVec8;
#endif

}  // namespace carafe
