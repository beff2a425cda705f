// Layers in place whose work is done by the layer before them, in one pass over the memory.
#pragma once

#include "carafe/layers/layer.h"

namespace carafe {

// What follows a layer, in this order, and works in place on its top.
template <typename T>
struct Followers {
  Layer<T>* norm = nullptr;   // BatchNorm with constant statistics (a ChannelAffine)
  Layer<T>* scale = nullptr;  // a learned scale per channel, with or without a shift
  bool relu = false;          // max(0, .)
  bool backward = true;       // false: no Backward will come, so that nothing is kept for it
};

// A layer that is y = s_c x + t_c per channel (axis 1), is a Layer<T> and this.
template <typename T>
class ChannelAffine {
 public:
  virtual ~ChannelAffine() = default;
  virtual bool IsConstant() const = 0;  // s and t do not depend on x
  // s and t of now, t for an x that has shift_c (null: 0) added to it first.
  virtual void Coefficients(Stream& stream, const Blob<T>* shift, Blob<T>* s, Blob<T>* t) = 0;
};

// A layer that can take over is a Layer<T> and this.
template <typename T>
class Absorbing {
 public:
  virtual ~Absorbing() = default;
  virtual bool AbsorbsNorm() const { return false; }  // only where no Backward will come
  virtual bool AbsorbsScale() const { return false; }
  // Whose work the next Forward (Backward) does, too. Backward then gets the gradient of the last
  // follower's top, and adds to the gradients of the scale.
  virtual void Absorb(const Followers<T>& followers) = 0;
};

}  // namespace carafe
