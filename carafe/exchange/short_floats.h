// Conversions between float and 16-bit formats, rounded to nearest even. NaN stays NaN, infinity
// stays infinite, and finite values stay finite: those beyond the range become the largest.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace carafe {

// Sign, 8 bits of exponent, 7 of mantissa: the upper half of a float.
inline uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN, quiet
  uint32_t rounded = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;
  if (magnitude < 0x7f800000u) rounded = std::min(rounded, uint32_t{0x7f7f});
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | rounded);
}

inline float FromBf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

// IEEE 754 binary16: sign, 5 bits of exponent, 10 of mantissa.
inline uint16_t ToFp16(float value) {
  constexpr float kLargest = 65504;
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN, quiet
  if (magnitude == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // infinity
  const float absolute = std::min(std::fabs(value), kLargest);
  if (absolute < 0x1p-14f) {  // subnormal: a multiple of 2^-24, which the addition rounds to
    const float shifted = absolute + 0x1p-1f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0x1p-1f)));
  }
  const auto limited = std::bit_cast<uint32_t>(absolute);
  const uint32_t rounded = (limited + 0xfffu + (limited >> 13 & 1u)) >> 13;
  return static_cast<uint16_t>(sign | (rounded - ((127u - 15u) << 10)));
}

inline float FromFp16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0)
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f) |
                                sign);
  const uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + (127u - 15u);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

}  // namespace carafe
