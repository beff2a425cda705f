// How many multiply-adds a layer's Forward takes: the rules of all layer types in one place.
#pragma once

#include "carafe/core/shape.h"
#include "carafe/proto/messages.h"

namespace carafe {

// The products of matrices are counted (one for a multiplication with its addition, as publications
// do), and nothing else: activations, pooling, normalisation, biases and look-ups (Embed) are 0.
// `params` are the shapes of the layer's blobs. Throws ConfigError for a number beyond 63 bits.
int64_t MultiplyAdds(const LayerParameter& layer, const Shapes& bottoms, const Shapes& tops,
                     const Shapes& params);

}  // namespace carafe
