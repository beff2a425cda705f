// Which axes of a blob count the rows of the batch.
#pragma once

#include <vector>

#include "carafe/net/graph.h"

namespace carafe {

// By blob: 1, or 2 where axes 0 and 1 are the steps and sequences of a recurrent layer. That holds
// for what recurrent layers read and write, and on from layer to layer as long as blobs begin with
// the same two sizes.
template <typename T>
std::vector<int> RowAxes(const Graph<T>& graph);

// Lets every layer know those of its bottom 0 (Layer::SetRowAxes).
template <typename T>
void SetRowAxes(const Graph<T>& graph);

}  // namespace carafe
