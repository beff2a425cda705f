// exp, tanh and the sigmoid of eight floats, to about one unit in the last place. For CPU-only
// kernel files.
#pragma once

#include "carafe/base/float8.h"

namespace carafe {

// The parts of e^x = 2^n (1 + m): x = n ln 2 + r with |r| <= ln 2 / 2, m = e^r - 1 by its series to
// the seventh power. |x| must not exceed 87, so that 2^n is a number.
struct ExpParts8 {
  Float8 power;  // 2^n
  Float8 m;
};
inline ExpParts8 SplitExp8(Float8 x) {
  // Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits.
  const Float8 magic = All8(12582912.0f);
  const Float8 shifted = MulAdd8(x, All8(1.44269504f), magic);
  const Float8 n = shifted - magic;
  Float8 r = MulAdd8(n, All8(-0.693359375f), x);  // ln 2 in two parts: the first times n is exact
  r = MulAdd8(n, All8(2.12194440e-4f), r);
  Float8 series = All8(1.0f / 5040);
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f}) {
    series = MulAdd8(series, r, All8(c));
  }
  Int8 bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + All8(0x3f800000);
  ExpParts8 parts;
  std::memcpy(&parts.power, &bits, sizeof bits);
  parts.m = MulAdd8(series * r, r, r);
  return parts;
}

inline Float8 Clamp8(Float8 x, float limit) {
  x = x < All8(-limit) ? All8(-limit) : x;  // what is not a number stays so
  return x > All8(limit) ? All8(limit) : x;
}

// 1 / (1 + e^-x)
inline Float8 Sigmoid8(Float8 x) {
  const ExpParts8 e = SplitExp8(Clamp8(-x, 87.0f));
  return All8(1.0f) / (All8(1.0f) + MulAdd8(e.power, e.m, e.power));
}

// t / (t + 2) with t = e^(2x) - 1 = 2^n m + (2^n - 1), which keeps its accuracy around 0.
inline Float8 Tanh8(Float8 x) {
  const ExpParts8 e = SplitExp8(Clamp8(x + x, 20.0f));
  const Float8 t = MulAdd8(e.power, e.m, e.power - All8(1.0f));
  return t / (t + All8(2.0f));
}

}  // namespace carafe
