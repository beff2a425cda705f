// One net: a graph of layers, its parameters, the memory of its blobs, and the runner that runs it.
// Construction infers every shape without taking memory for blobs, so that a whole net is checked
// in milliseconds; Initialise lays out and fills the parameters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/kernels/convolution_algorithms.h"
#include "carafe/net/runner.h"

namespace carafe {

// Run by one thread at a time.
template <typename T>
class Net {
 public:
  // Throws ConfigError or DataError for anything that cannot work.
  // `algorithms` is what SetPlan is called with first.
  Net(const NetSpec& spec, const NetState& state, const AlgorithmChoices& algorithms = {});

  // Takes memory for the parameters on the stream's device and fills them.
  void Initialise(Stream& stream, uint64_t seed) { params_->Initialise(stream, seed); }
  // See Parameters.
  void PlaceGradients(Stream& stream, GradientLife life, BufferUse use = BufferUse::kOwn) {
    params_->PlaceGradients(stream, life, use);
  }
  void ClearParamDiffs(Stream& stream) { params_->ClearGradients(stream); }
  // This net's parameters become views of the other's, by layer name.
  void ShareParamsWith(Net& other) { params_->ShareWith(other.graph()); }
  // The same for a net of the same spec, but for the parameters that Forward writes.
  void ShareLearnedParamsWith(const Net& twin) { params_->ShareLearnedWith(twin.graph()); }
  // See Parameters: 0 where the gradient of this parameter cannot be offered as factors.
  int64_t FactorRows(int param) const { return params_->FactorRows(param); }
  // From the next Backward with ParamEvents on the gradient of this parameter is not computed, but
  // offered as factors to ParamEvents::FactorsReady; or again computed, as in any Backward without
  // events. False, and nothing changes, where a layer that uses it has no factors or no gradient
  // for it.
  bool RequestFactors(int param, bool wanted = true);

  // Returns the loss: the sum over all tops of loss_weight times their elements.
  double Forward(RunContext& run, ParamEvents<T>* events = nullptr) {
    return ForwardFromTo(run, 0, graph_->size() - 1, events);
  }
  double ForwardFromTo(RunContext& run, int first, int last, ParamEvents<T>* events = nullptr) {
    return runner_->Forward(run, first, last, events);
  }
  void Backward(RunContext& run, ParamEvents<T>* events = nullptr) {
    BackwardFromTo(run, graph_->size() - 1, 0, events);
  }
  void BackwardFromTo(RunContext& run, int first, int last, ParamEvents<T>* events = nullptr) {
    runner_->Backward(run, first, last, events);
  }
  // The forward pass of layers [0, end), each by itself (nothing fused), without those in `skip`;
  // `after(layer)` is called for every one of them while its tops are still in memory. Nothing can
  // follow but a Forward. For FindBadBlob (net/bad_blob.h).
  void ForwardAgain(RunContext& run, int end, const std::vector<bool>& skip,
                    const std::function<void(int layer)>& after) {
    runner_->ForwardAgain(run, end, skip, after);
  }
  // Infers all shapes again, after an input blob was reshaped.
  void Reshape(RunContext& run) { runner_->Reshape(run); }
  // Null: nobody listens.
  void set_layer_events(LayerEvents* events) { runner_->set_layer_events(events); }

  // How layers work from the next pass on. Throws ConfigError for an algorithm that is not known.
  void SetPlan(const AlgorithmChoices& choices, bool fuse = true);
  // From the next pass on blobs give their memory to the pool when they are dead, and their content
  // is lost then, but for outputs of the net and the blobs named in `keep`; only whole passes can
  // be run, Backward (of kTraining) once after each Forward. Nets that run one after the other may
  // use one pool.
  void ShareMemory(MemorySharing sharing, std::shared_ptr<MemoryPool> pool,
                   const std::vector<std::string>& keep = {});
  const MemoryPlan& memory_plan() const { return memory_->plan(); }
  const std::vector<Fusion>& fusions() const { return fusions_; }

  const Graph<T>& graph() const { return *graph_; }
  const Parameters<T>& parameters() const { return *params_; }

  // Parts of the graph (net/graph.h).
  const std::string& name() const { return graph_->name; }
  Phase phase() const { return state().phase(); }
  const NetState& state() const { return graph_->state; }
  const std::vector<std::unique_ptr<Layer<T>>>& layers() const { return graph_->layers; }
  const std::vector<std::vector<Blob<T>*>>& bottoms() const { return graph_->bottoms; }
  const std::vector<std::vector<Blob<T>*>>& tops() const { return graph_->tops; }
  const std::vector<std::vector<int>>& bottom_ids() const { return graph_->bottom_ids; }
  const std::vector<std::vector<int>>& top_ids() const { return graph_->top_ids; }
  const std::vector<bool>& layer_needs_backward() const { return graph_->needs_backward; }
  const std::vector<std::vector<bool>>& propagate_down() const { return graph_->propagate_down; }
  const std::vector<std::unique_ptr<Blob<T>>>& blobs() const { return graph_->blobs; }
  const std::vector<std::string>& blob_names() const { return graph_->blob_names; }
  float blob_loss_weight(int blob) const { return At(graph_->blob_loss_weights, blob); }
  const std::vector<int>& input_ids() const { return graph_->input_ids; }
  const std::vector<int>& output_ids() const { return graph_->output_ids; }
  Blob<T>* FindBlob(const std::string& name) const;  // null if there is none
  Layer<T>* FindLayerNamed(const std::string& name) const;

  // Parts of the parameters (net/parameters.h).
  const std::vector<Param<T>>& params() const { return params_->all(); }
  int OwnerOf(int layer, int index) const { return At(params_->UsedBy(layer), index); }
  int OnlyUserOf(int param) const { return params_->OnlyUserOf(param); }
  const std::shared_ptr<Buffer>& value_arena() const { return params_->value_arena(); }
  const std::shared_ptr<Buffer>& gradient_arena() const { return params_->gradient_arena(); }
  int64_t arena_count() const { return params_->arena_count(); }

 private:
  void Prepare();  // after each change of the plan or of what memory is shared

  std::unique_ptr<const Graph<T>> graph_;
  std::unique_ptr<Parameters<T>> params_;
  std::unique_ptr<BlobMemory<T>> memory_;
  std::unique_ptr<Runner<T>> runner_;
  bool fuse_ = true;
  std::vector<Fusion> fusions_;
};

}  // namespace carafe
