// Counting multiply-adds (Layer::MultiplyAdds) without overflow: what does not fit into 63 bits is
// a ConfigError.
#pragma once

#include <cstdint>

namespace carafe {

int64_t CheckedProduct(int64_t a, int64_t b);
int64_t CheckedSum(int64_t a, int64_t b);

}  // namespace carafe
