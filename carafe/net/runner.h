// Runs the layers of a graph forward and backward, over lists of prepared steps in which fusion,
// the release of memory and what to report about parameters are data.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "carafe/net/blob_memory.h"
#include "carafe/net/events.h"
#include "carafe/net/fusion.h"

namespace carafe {

// One layer in a forward pass, in this order.
template <typename T>
struct ForwardStep {
  int id = 0;  // of the layer
  Layer<T>* layer = nullptr;
  Blobs<T> bottoms, tops;
  Followers<T> followers;                          // that the layer computes as well
  std::vector<int> reads;                          // parameters, those of the followers included
  std::vector<std::pair<Blob<T>*, float>> losses;  // tops and their loss weights
  std::vector<BlobHalf> dead;                      // memory to release after it
};

// One layer in a backward pass, in this order.
template <typename T>
struct BackwardStep {
  int id = 0;  // of the layer
  Layer<T>* layer = nullptr;
  Blobs<T> bottoms, tops;
  const std::vector<bool>* propagate_down = nullptr;
  Followers<T> followers;
  bool needed = false;                       // false: nothing to compute, only to report
  std::vector<std::pair<int, int>> factors;  // (blob of the layer, parameter) to offer as factors
  std::vector<BlobHalf> dead;
  std::vector<int> final_params;  // whose gradient no later step changes
};

// Used by the thread that runs the net. What it is given outlives it.
template <typename T>
class Runner {
 public:
  Runner(const Graph<T>& graph, const Parameters<T>& params, BlobMemory<T>& memory)
      : graph_(graph), params_(params), memory_(memory), fitting_(graph.layers.size()) {}

  // Makes the lists of steps: after every change of fusions, memory or wanted factors.
  void Prepare(std::vector<Fusion> fusions);
  void set_layer_events(LayerEvents* events) { layer_events_ = events; }

  // Over layers first .. last; Backward downwards. Fusions that lie within are used, but for those
  // of a net whose layers are watched (set_layer_events).
  double Forward(RunContext& run, int first, int last, ParamEvents<T>* events);
  void Backward(RunContext& run, int first, int last, ParamEvents<T>* events);
  void Reshape(RunContext& run);
  // See Net::ForwardAgain.
  void ForwardAgain(RunContext& run, int end, const std::vector<bool>& skip,
                    const std::function<void(int layer)>& after);

 private:
  struct Steps {
    std::vector<ForwardStep<T>> forward;
    std::vector<BackwardStep<T>> backward;
  };
  // Steps over layers [low, high]; without fusion, or with those fusions that lie within.
  Steps StepsOf(int low, int high, bool fuse) const;
  // Those of a whole pass are prepared; for a part of one they are made in `own`.
  const Steps& StepsFor(int low, int high, Steps* own) const;
  ForwardStep<T> ForwardStepOf(int layer, const Fusion* fusion) const;
  BackwardStep<T> BackwardStepOf(int layer, const Fusion* fusion) const;
  Followers<T> FollowersOf(const Fusion& fusion) const;
  void CheckParams(Layer<T>& layer, Blobs<T> bottoms, Shapes* fitting);
  void ReshapeLayer(RunContext& run, const ForwardStep<T>& step);
  // Adds the weighted sums of the loss tops, and fills their diffs.
  static void AddLosses(RunContext& run, const ForwardStep<T>& step, double* loss);
  void Report(LayerEvents::When when, int layer) {
    if (layer_events_ != nullptr) layer_events_->OnLayer(when, layer);
  }

  const Graph<T>& graph_;
  const Parameters<T>& params_;
  BlobMemory<T>& memory_;
  std::vector<Fusion> fusions_;
  Steps fused_, single_;         // whole passes
  std::vector<Shapes> fitting_;  // by layer: bottoms that its parameters are known to fit
  LayerEvents* layer_events_ = nullptr;
};

}  // namespace carafe
