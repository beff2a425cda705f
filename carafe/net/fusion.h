// Which layers are computed together with the one before them, in one pass over memory.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "carafe/net/memory_plan.h"

namespace carafe {

// Layers `norm`, `scale` and `relu` (-1: none) work in place on what layer `producer` has just
// written, and nothing reads the blob between them: the producer can compute them all.
struct Fusion {
  int producer = -1, norm = -1, scale = -1, relu = -1;

  std::array<int, 3> followers() const { return {norm, scale, relu}; }
  int last() const { return std::max({norm, scale, relu}); }
};

// A scale is fused only where memory is shared, and so whole passes are run, for its input is then
// gone: a backward pass could not start or end between the two. Where only forward passes are run,
// BatchNorm and Scale go into a convolution's weights.
template <typename T>
std::vector<Fusion> FindFusions(const Graph<T>& graph, const Parameters<T>& params,
                                MemorySharing sharing);

// By layer of a net with `layers` layers: the producer that computes it, or -1.
std::vector<int> FusedInto(const std::vector<Fusion>& fusions, int layers);

}  // namespace carafe
