// Layers that can hand the gradient of their weights over part by part, so that it never is in
// memory as a whole: that of the largest matrix of VGG-16 takes 392 MiB.
#pragma once

#include <functional>

#include "carafe/core/stream.h"

namespace carafe {

// Elements [first, first + count) of the gradient, which the taker uses and sets to 0. Called by
// several threads at a time, for different parts; the stream is the calling thread's.
template <typename T>
using PartTaker = std::function<void(Stream& stream, int64_t first, int64_t count, T* gradient)>;

// A layer that can is a Layer<T> and this.
template <typename T>
class GradientParts {
 public:
  virtual ~GradientParts() = default;
  // From the next Backward on the gradient of blob 0 goes to the taker instead of to its diff, when
  // nobody reads the values any more; returns false if the layer will not do so. Null: as usual.
  virtual bool HandOverParts(PartTaker<T> taker) = 0;
};

}  // namespace carafe
