// The second operand of Scale and Bias: a learned blob or a second bottom whose axes are those of
// the first from `axis` on.
#pragma once

#include "carafe/kernels/channels.h"
#include "carafe/layers/layer.h"

namespace carafe {

// The shape of a learned operand: axes [axis, axis + num_axes) of x; num_axes -1: to the end.
// `path` names the layer's parameter message in errors.
Shape LearnedOperand(const LayerSpec& spec, const std::string& path, const Shape& x, int axis,
                     int num_axes);

// How an operand of this shape lies in x; throws ConfigError where it does not fit. A scalar fits
// everywhere.
ChannelAxis OperandAxis(const LayerSpec& spec, const Shape& x, int axis, const Shape& operand);

// Whether that is one number for each channel (axis 1) of x.
inline bool IsChannelAxis(ChannelAxis axis, const Shape& x) {
  return x.rank() >= 3 && axis.outer == x[0] && axis.channels == x[1] && axis.inner == x.Count(2);
}

}  // namespace carafe
