#include "carafe/layers/multiply_adds.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {

int64_t CheckedProduct(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw ConfigError(fmt::format("{} times {} multiply-adds are more than 63 bits hold", a, b),
                      "correct the layer's sizes");
  }
  return result;
}

int64_t CheckedSum(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    throw ConfigError("the multiply-adds are more than 63 bits hold", "correct the layer's sizes");
  }
  return result;
}

}  // namespace carafe
