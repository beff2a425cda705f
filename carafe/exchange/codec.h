// A codec between a gradient and the wire, per parameter. Every part is encoded once, at its
// source: a rank, or a host where sums are made inside hosts first. The owner of a segment decodes
// all parts (its own too), adds them in fp32 in the order of the layout and encodes the result
// once; every rank, the owner included, uses the decoded result. So replicas stay bit-equal
// whatever the codec loses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace carafe {

// Stateless: called by any thread. What an encoding leaves out can be kept in a residual and added
// in the next step (error feedback); residuals belong to the exchange and are part of its state.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;  // the same codec on all ranks has the same name
  virtual size_t EncodedBytes(int64_t count) const = 0;
  virtual bool has_residual() const { return false; }
  // Whether the code of an element depends on that element alone. Otherwise results depend on how
  // gradients are cut in messages.
  virtual bool per_element() const { return true; }
  // Encodes values[i] + residual[i] and leaves in residual what the encoding lost. `residual` is
  // null without has_residual().
  virtual void Encode(const float* values, int64_t count, float* residual,
                      std::byte* encoded) const = 0;
  virtual void Decode(const std::byte* encoded, int64_t count, float* values) const = 0;
};

}  // namespace carafe
