// The parameters of a net: who owns and who shares them, and the two arenas that hold their values
// and gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carafe/net/graph.h"

namespace carafe {

// A parameter that is owned (not shared from an earlier layer). Its id is its place in Caffe's
// learnable order.
template <typename T>
struct Param {
  std::string name;  // "conv1/0"
  Blob<T>* blob = nullptr;
  int layer = 0;        // the owner's index
  int index = 0;        // which of its blobs
  int final_layer = 0;  // the first layer in net order that uses it: its gradient is final after
                        // that one's Backward
  float lr_mult = 1;
  float decay_mult = 1;
  int64_t arena_offset = 0;  // in elements, in both arenas
  bool learned = true;       // false: written by Forward (running statistics), never by an update

  bool frozen() const { return lr_mult == 0; }
};

// How long the gradients of parameters last.
enum class GradientLife {
  kStep,      // until all are there and used: each has its own place
  kBackward,  // GradientFinal uses it and sets it to 0: those that come later take the same place
};

// All parameters of one graph, which outlives them. Used by one thread at a time.
template <typename T>
class Parameters {
 public:
  // `owners`: by layer and blob, the id in `params`; `defs`: what the layers declared.
  Parameters(const Graph<T>& graph, std::vector<Param<T>> params,
             std::vector<std::vector<int>> owners, std::vector<std::vector<ParamDef>> defs);

  const std::vector<Param<T>>& all() const { return params_; }
  // Ids of the parameters that a layer reads, by its blobs.
  const std::vector<int>& UsedBy(int layer) const { return At(owners_, layer); }
  // Those whose gradient is final after this layer's Backward, the later blob first.
  const std::vector<int>& FinalAfter(int layer) const { return At(final_after_, layer); }
  // The only layer that uses a parameter, or -1 if several do.
  int OnlyUserOf(int param) const;
  // The rows of the factors that the layers which use the parameter offer in one pass, with the
  // shapes that the blobs have now; 0 where one of them has none, or no gradient for it.
  int64_t FactorRows(int param) const;
  // From the next Backward on all layers that use the parameter offer factors
  // (ParamEvents::FactorsReady), or no longer do. False, and nothing changes, where one of them
  // cannot or has no gradient for it.
  bool RequestFactors(int param, bool wanted);

  // Takes memory for values and gradients on the stream's device, in the order of the backward
  // pass, and fills the values.
  void Initialise(Stream& stream, uint64_t seed);
  // Where gradients lie from now on, all 0; after Initialise they have the life of a step. Those of
  // frozen parameters keep their own place.
  void PlaceGradients(Stream& stream, GradientLife life, BufferUse use);
  void ClearGradients(Stream& stream);
  // The values become views of those of the other graph, by layer name.
  void ShareWith(const Graph<T>& other);
  // The same for a graph of the same spec, but for the parameters that Forward writes.
  void ShareLearnedWith(const Graph<T>& twin);

  // All values (gradients) in one piece; null before Initialise, and values if they are another
  // net's.
  const std::shared_ptr<Buffer>& value_arena() const { return value_arena_; }
  const std::shared_ptr<Buffer>& gradient_arena() const { return gradient_arena_; }
  int64_t arena_count() const { return arena_count_; }

 private:
  void LayOut();
  size_t LayOutReusedGradients(std::vector<int64_t>* offsets) const;
  std::pair<int, int> GradientSpan(int param) const;
  // share(blob, owner) for every layer's blob that is shared from an earlier layer.
  template <typename F>
  void ForEachSharer(const F& share) const {
    for (int l = 0; l < graph_.size(); ++l) {
      for (int i = 0; i < Count(UsedBy(l)); ++i) {
        const Blob<T>& owner = *At(params_, At(UsedBy(l), i)).blob;
        Blob<T>& blob = At(graph_.layers, l)->blob(i);
        if (&blob != &owner) share(blob, owner);
      }
    }
  }

  const Graph<T>& graph_;
  std::vector<Param<T>> params_;
  const std::vector<std::vector<int>> owners_;
  const std::vector<std::vector<ParamDef>> defs_;
  std::vector<std::vector<int>> final_after_;  // by layer
  std::shared_ptr<Buffer> value_arena_, gradient_arena_;
  int64_t arena_count_ = 0;
  GradientLife gradient_life_ = GradientLife::kStep;
  BufferUse gradient_use_ = BufferUse::kOwn;
};

}  // namespace carafe
