// The structure of a net: layers in order, the blobs between them, and what needs a gradient.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carafe/layers/layer.h"
#include "carafe/net/net_spec.h"

namespace carafe {

template <typename T>
class Parameters;

// Built once and constant from then on, but for the shapes and contents of blobs and for what
// layers keep. Ids are places in these vectors. Blobs are in the order in which they are made; a
// layer in place has the same blob as bottom and top.
template <typename T>
struct Graph {
  std::string name;
  NetState state;
  std::vector<std::unique_ptr<Layer<T>>> layers;  // in forward order, Split layers included

  // By blob.
  std::vector<std::unique_ptr<Blob<T>>> blobs;
  std::vector<std::string> blob_names;
  std::vector<float> blob_loss_weights;
  std::map<std::string, int> blob_index;  // name -> id

  // By layer.
  std::vector<std::vector<int>> bottom_ids, top_ids;
  std::vector<std::vector<Blob<T>*>> bottoms, tops;  // the same as pointers
  std::vector<std::vector<bool>> propagate_down;     // by bottom
  std::vector<std::vector<float>> loss_weights;      // by top
  std::vector<bool> needs_backward;

  std::vector<int> input_ids;   // tops of Input layers
  std::vector<int> output_ids;  // blobs that no layer reads, alphabetical by name

  int size() const { return Count(layers); }
};

template <typename T>
struct BuiltNet {
  std::unique_ptr<const Graph<T>> graph;
  std::unique_ptr<Parameters<T>> params;
};

// Filters the layers by `state`, inserts splits and connects everything. Infers all shapes, and
// takes no memory for blobs. Throws ConfigError or DataError for anything that cannot work.
template <typename T>
BuiltNet<T> BuildGraph(const NetSpec& spec, const NetState& state);

}  // namespace carafe
