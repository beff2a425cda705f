// Scores along one axis, and labels that may be ignored: what the kernels of losses and scores
// share.
#pragma once

#include <cstdint>

#include "carafe/base/host_device.h"

namespace carafe {

// An array (outer, classes, inner): one item per (outer, inner), with a label each.
struct ClassAxis {
  int64_t outer, classes, inner;
  CARAFE_HD int64_t items() const { return outer * inner; }
  // Where the item's class 0 lies; the others follow at a distance of `inner`.
  CARAFE_HD int64_t first_of(int64_t item) const {
    return item / inner * classes * inner + item % inner;
  }
};

// An optional label to leave out; by value, so that a kernel can carry it to a device.
class IgnoredLabel {
 public:
  explicit IgnoredLabel(const int* label) : on_(label != nullptr), label_(on_ ? *label : 0) {}
  template <typename T>
  CARAFE_HD bool Matches(T value) const {
    return on_ && static_cast<int64_t>(value) == label_;
  }

 private:
  bool on_;
  int64_t label_;
};

}  // namespace carafe
