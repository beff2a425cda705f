// Eight floats as one value, by the compilers' vector types: AVX registers where the target has
// them, pairs of narrower ones elsewhere. One lane per channel of an nChw8c block. Why not a
// library: docs/decisions/0031-eight-floats.md. For files that are never compiled as CUDA.
#pragma once

#include <cstdint>
#include <cstring>

#include "carafe/base/unroll.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // no such value crosses the border of an object file
#endif

namespace carafe {

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));

CARAFE_INLINE Float8 Load8(const float* p) {
  Float8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
CARAFE_INLINE void Store8(float* p, Float8 v) { std::memcpy(p, &v, sizeof v); }
CARAFE_INLINE Float8 All8(float x) { return Float8{x, x, x, x, x, x, x, x}; }
CARAFE_INLINE Int8 All8(int32_t x) { return Int8{x, x, x, x, x, x, x, x}; }
// Eight bytes as integers, and back (each 0 .. 255).
CARAFE_INLINE Int8 LoadBytes8(const uint8_t* p) {
#if defined(__AVX2__)
  return Int8(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  Int8 v;
  for (int i = 0; i < 8; ++i) v[i] = p[i];
  return v;
#endif
}
CARAFE_INLINE void StoreBytes8(uint8_t* p, Int8 v) {
#if defined(__AVX2__)
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(__m256i(v)), _mm256_extracti128_si256(__m256i(v), 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
#else
  for (int i = 0; i < 8; ++i) p[i] = static_cast<uint8_t>(v[i]);
#endif
}
// a * b + c, rounded once where the CPU can do that.
CARAFE_INLINE Float8 MulAdd8(Float8 a, Float8 b, Float8 c) {
#if defined(__FMA__)
  return Float8(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  return a * b + c;
#endif
}
// The larger of each pair; b where one is not a number.
CARAFE_INLINE Float8 Max8(Float8 a, Float8 b) {
#if defined(__AVX2__)
  return Float8(_mm256_max_ps(__m256(a), __m256(b)));
#else
  return a > b ? a : b;
#endif
}
// Tells the compiler to hold v in a register; it may load it again for every use otherwise.
CARAFE_INLINE void Hold8([[maybe_unused]] Float8& v) {
#if defined(__AVX2__)
  asm("" : "+x"(v));
#endif
}
// v where the lane of `mask` is all ones, 0 where it is 0.
CARAFE_INLINE Float8 Keep8(Int8 mask, Float8 v) {
  Int8 bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= mask;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
// The first n lanes of an array (n < 8: 0 in the others): a channel's numbers for one block.
CARAFE_INLINE Float8 LoadPart8(const float* p, int64_t n) {
  if (n >= 8) return Load8(p);
  Float8 v = All8(0.0f);
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}
CARAFE_INLINE void StorePart8(float* p, int64_t n, Float8 v) {
  std::memcpy(p, &v, static_cast<size_t>(n < 8 ? n : 8) * sizeof(float));
}

// rows[i][j] <-> rows[j][i], in three rounds that exchange 1, 2 and 4 neighbours.
CARAFE_INLINE void Transpose8(Float8 (&rows)[8]) {
  Float8 pairs[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  Float8 fours[8];  // columns c and 4 + c of rows 0 .. 3, then of rows 4 .. 7
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const Float8 upper = pairs[i + k], lower = pairs[i + 2 + k];
      fours[i + 2 * k] = __builtin_shufflevector(upper, lower, 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * k + 1] = __builtin_shufflevector(upper, lower, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Float8 upper = fours[c], lower = fours[4 + c];
    rows[c] = __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 8, 9, 10, 11);
    rows[4 + c] = __builtin_shufflevector(upper, lower, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace carafe
