// Which elements of a bucket a rank encodes: as parts, and as sums. Residuals belong to these.
#pragma once

#include "carafe/exchange/scheme.h"

namespace carafe {

class EncodedHere {
 public:
  // Parts are encoded when they are sent or added, sums where they are made.
  explicit EncodedHere(const Transfer& transfer) {
    if (!transfer.codec || !transfer.part_residual) return;
    parts_.resize(static_cast<size_t>(transfer.count));
    sums_.resize(static_cast<size_t>(transfer.count));
    for (const Program& program : transfer.chunks)
      for (const Operation& operation : program) {
        if (operation.plain || operation.kind == Operation::Kind::kReceive) continue;
        Mark(operation, parts_);
        if (operation.kind == Operation::Kind::kSum) Mark(operation, sums_);
      }
  }
  // Sets to 0 what other ranks encode.
  void ClearElsewhere(const BucketMemory& bucket) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i]) bucket.part_residual[i] = 0;
      if (!sums_[i]) bucket.sum_residual[i] = 0;
    }
  }

 private:
  static void Mark(const Operation& operation, std::vector<bool>& elements) {
    for (int64_t i = operation.begin; i < operation.end; ++i)
      elements[static_cast<size_t>(i)] = true;
  }

  std::vector<bool> parts_, sums_;  // by element; empty without residuals
};

}  // namespace carafe
