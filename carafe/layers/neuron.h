// Base of the layers that work on each element by itself: one bottom, one top of the same shape.
#pragma once

#include "carafe/layers/layer.h"

namespace carafe {

template <typename T>
class NeuronLayer : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const final { return {bottom[0]}; }
};

}  // namespace carafe
