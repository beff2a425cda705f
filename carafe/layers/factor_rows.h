// How many rows the factors of a weight gradient have (Layer::HasFactors): what an exchange that
// sends factors must know before the first pass.
#pragma once

#include <cstdint>

#include "carafe/layers/layer.h"

namespace carafe {

// A base class beside Layer of those layers that have factors.
class HasFactorRows {
 public:
  virtual ~HasFactorRows() = default;
  // Of Layer::GradientFactors for bottoms of these shapes; 0: for such bottoms it has none.
  virtual int64_t FactorRows(int param, const Shapes& bottom) const = 0;
};

// 0 for a layer without factors.
template <typename T>
int64_t FactorRowsOf(const Layer<T>& layer, int param, const Shapes& bottom) {
  if (!layer.HasFactors(param)) return 0;
  const auto* has_rows = dynamic_cast<const HasFactorRows*>(&layer);
  return has_rows == nullptr ? 0 : has_rows->FactorRows(param, bottom);
}

}  // namespace carafe
