// Base of the layers that only see a blob in another shape: the top shares the bottom's memory.
#pragma once

#include "carafe/layers/layer.h"

namespace carafe {

template <typename T>
class AliasLayer : public Layer<T> {
 public:
  using Layer<T>::Layer;
  void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top) final {
    Layer<T>::Reshape(run, bottom, top);
    top[0]->ShareData(*bottom[0]);
    top[0]->ShareDiff(*bottom[0]);
  }
  BackwardReads ReadsInBackward() const final { return {.bottom = false, .top = false}; }
  TopSharing SharesBottom() const final { return {.data = true, .diff = true}; }
  void Forward(RunContext&, Blobs<T>, Blobs<T>) final {}
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) final {}
};

}  // namespace carafe
