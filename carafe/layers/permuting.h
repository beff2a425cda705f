// Base of layers whose top holds the elements of the bottom in another order.
#pragma once

#include "carafe/kernels/permute.h"
#include "carafe/layers/layer.h"

namespace carafe {

template <typename T>
class PermutingLayer : public Layer<T> {
 public:
  using Layer<T>::Layer;
  BackwardReads ReadsInBackward() const final { return {.bottom = false, .top = false}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) final {
    PermuteForward(run.stream, GeometryOf(bottom[0]->shape()), bottom[0]->data(run.stream),
                   top[0]->mutable_data(run.stream));
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) final {
    if (!propagate_down[0]) return;
    PermuteBackward(run.stream, GeometryOf(bottom[0]->shape()), top[0]->diff(run.stream),
                    bottom[0]->mutable_diff(run.stream));
  }

 protected:
  // Where each element of the top comes from, for a bottom of this shape.
  virtual PermuteGeometry GeometryOf(const Shape& x) const = 0;
};

}  // namespace carafe
