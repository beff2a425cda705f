// Eight floats as one value, by the compilers' vector types: AVX registers where the target has
// them, pairs of narrower ones elsewhere; and a loop over threads. For CPU-only kernel files, which
// are never compiled as CUDA.
#pragma once

#include <cstdint>
#include <cstring>

#include "carafe/core/stream.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // no such value crosses the border of an object file
#endif

namespace carafe {

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));

inline Float8 Load8(const float* p) {
  Float8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void Store8(float* p, Float8 v) { std::memcpy(p, &v, sizeof v); }
inline Float8 All8(float x) { return Float8{x, x, x, x, x, x, x, x}; }
inline Int8 All8(int32_t x) { return Int8{x, x, x, x, x, x, x, x}; }
// Eight bytes as integers, and back (each 0 .. 255).
inline Int8 LoadBytes8(const uint8_t* p) {
#if defined(__AVX2__)
  return Int8(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  Int8 v;
  for (int i = 0; i < 8; ++i) v[i] = p[i];
  return v;
#endif
}
inline void StoreBytes8(uint8_t* p, Int8 v) {
#if defined(__AVX2__)
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(__m256i(v)), _mm256_extracti128_si256(__m256i(v), 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
#else
  for (int i = 0; i < 8; ++i) p[i] = static_cast<uint8_t>(v[i]);
#endif
}
// a * b + c, rounded once where the CPU can do that.
inline Float8 MulAdd8(Float8 a, Float8 b, Float8 c) {
#if defined(__FMA__)
  return Float8(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  return a * b + c;
#endif
}
// Tells the compiler to hold v in a register; it may load it anew for every use otherwise.
inline void Hold8([[maybe_unused]] Float8& v) {
#if defined(__AVX2__)
  asm("" : "+x"(v));
#endif
}
// v where the lane of `mask` is all ones, 0 where it is 0.
inline Float8 Keep8(Int8 mask, Float8 v) {
  Int8 bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits &= mask;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
// The first n lanes of an array (n < 8: 0 in the others): a channel's numbers for one block.
inline Float8 LoadPart8(const float* p, int64_t n) {
  if (n >= 8) return Load8(p);
  Float8 v = All8(0.0f);
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}
inline void StorePart8(float* p, int64_t n, Float8 v) {
  std::memcpy(p, &v, static_cast<size_t>(n < 8 ? n : 8) * sizeof(float));
}

// Calls f(i) for i = 0 .. n-1, on the stream's threads where n * cost elements are worth it. What
// f(i) computes may not depend on how the calls are dealt.
template <typename F>
void CpuFor(const Stream& stream, int64_t n, int64_t cost, const F& f) {
  constexpr int64_t kSerial = 32768;
  if (stream.threads() <= 1 || n <= 1 || n * cost < kSerial) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(stream.threads())
  for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace carafe
