// The graph of layers: order, splits, sharing, forward and backward. Construction infers every
// shape without taking memory for blobs, so a whole net is judged in milliseconds; Initialise lays
// out and fills the parameters.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "carafe/kernels/convolution_algorithms.h"
#include "carafe/layers/absorbing.h"
#include "carafe/net/memory_plan.h"
#include "carafe/net/net_spec.h"

namespace carafe {

// A parameter that is owned (not shared from an earlier layer). Index in Net::params() is Caffe's
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

// Layers `norm`, `scale` and `relu` (-1: none) work in place on what layer `producer` has just
// written, and nobody sees the blob between them: the producer can do it all.
struct Fusion {
  int producer = -1, norm = -1, scale = -1, relu = -1;

  std::array<int, 3> followers() const { return {norm, scale, relu}; }
  int last() const { return std::max({norm, scale, relu}); }
};

// How long the gradients of parameters last.
enum class GradientLife {
  kStep,      // until all are there and used: each has a place of its own
  kBackward,  // GradientFinal uses it and sets it to 0: those that come later take the same place
};

// Told by the net as it runs; see exchange/exchange.h for what they are for.
class ParamEvents {
 public:
  virtual ~ParamEvents() = default;
  virtual void BeforeRead(int param) = 0;     // a layer is about to read it
  virtual void GradientFinal(int param) = 0;  // no more will be added to its gradient in this pass
};

// Told before and after each layer runs, by the thread that runs the net. Backward tells of layers
// that need none, too.
class LayerEvents {
 public:
  enum When { kBeforeForward, kAfterForward, kBeforeBackward, kAfterBackward };
  virtual ~LayerEvents() = default;
  virtual void OnLayer(When when, int layer) = 0;
};

// One net, run by one thread at a time.
template <typename T>
class Net {
 public:
  // Throws ConfigError or DataError for anything that cannot work.
  Net(const NetSpec& spec, const NetState& state);

  // Takes memory for the parameters on the stream's device (one arena for values, one for
  // gradients, in the order of the backward pass) and fills them.
  void Initialise(Stream& stream, uint64_t seed);

  // Where gradients lie from now on, all 0; after Initialise they have the life of a step. Those of
  // frozen parameters keep a place of their own.
  void PlaceGradients(Stream& stream, GradientLife life, BufferUse use = BufferUse::kOwn);

  // Returns the loss: the sum over all tops of loss_weight times their elements.
  double Forward(RunContext& run, ParamEvents* events = nullptr);
  double ForwardFromTo(RunContext& run, int first, int last, ParamEvents* events = nullptr);
  void Backward(RunContext& run, ParamEvents* events = nullptr);
  void BackwardFromTo(RunContext& run, int first, int last, ParamEvents* events = nullptr);
  void Reshape(RunContext& run);  // all shapes anew, after an input blob was reshaped
  void ClearParamDiffs(Stream& stream);
  void set_layer_events(LayerEvents* events) { layer_events_ = events; }  // null: nobody listens
  // How layers are to work from the next pass on; by default as the environment says
  // (CARAFE_ALGORITHM), or by rule. Throws ConfigError for an algorithm that is not known.
  void SetPlan(const AlgorithmChoices& choices, bool fuse = true);
  // From the next pass on blobs give their memory to the pool when they are dead, and their content
  // is lost then, but for outputs of the net and the blobs named in `keep`; only whole passes can
  // be run, Backward (of kTraining) once after each Forward. Nets that take turns may use one pool.
  void ShareMemory(MemorySharing sharing, std::shared_ptr<MemoryPool> pool,
                   const std::vector<std::string>& keep = {});
  const MemoryPlan& memory_plan() const { return memory_; }
  // This net's parameters become views of the other's, by layer name.
  void ShareParamsWith(Net& other);
  // The same for a net of the same spec, but for the parameters that Forward writes.
  void ShareLearnedParamsWith(const Net& twin);

  const std::string& name() const { return name_; }
  Phase phase() const { return state_.phase(); }
  const NetState& state() const { return state_; }
  const std::vector<std::unique_ptr<Layer<T>>>& layers() const { return layers_; }
  const std::vector<std::vector<Blob<T>*>>& bottoms() const { return bottoms_; }
  const std::vector<std::vector<Blob<T>*>>& tops() const { return tops_; }
  const std::vector<std::vector<int>>& bottom_ids() const { return bottom_ids_; }
  const std::vector<std::vector<int>>& top_ids() const { return top_ids_; }
  const std::vector<bool>& layer_needs_backward() const { return layer_needs_backward_; }
  const std::vector<std::vector<bool>>& propagate_down() const { return propagate_down_; }
  const std::vector<std::unique_ptr<Blob<T>>>& blobs() const { return blobs_; }
  const std::vector<std::string>& blob_names() const { return blob_names_; }
  float blob_loss_weight(int blob) const { return blob_loss_weights_[static_cast<size_t>(blob)]; }
  Blob<T>* FindBlob(const std::string& name) const;  // null if there is none
  Layer<T>* FindLayerNamed(const std::string& name) const;
  const std::vector<int>& input_ids() const { return input_ids_; }
  const std::vector<int>& output_ids() const { return output_ids_; }  // alphabetical by name
  const std::vector<Param<T>>& params() const { return params_; }
  // Parameters of layer `layer`, blob `index` -> its owner in params().
  int OwnerOf(int layer, int index) const {
    return owner_of_[static_cast<size_t>(layer)][static_cast<size_t>(index)];
  }
  // The earlier layer that does this one's work as well, or -1.
  int FusedInto(int layer) const { return fused_into_[static_cast<size_t>(layer)]; }
  const std::vector<Fusion>& fusions() const { return fusions_; }
  // The only layer that uses a parameter of params(), or -1 if several do.
  int OnlyUserOf(int param) const;
  // All values (gradients) in one piece; null before Initialise, and values if they are another
  // net's.
  const std::shared_ptr<Buffer>& value_arena() const { return value_arena_; }
  const std::shared_ptr<Buffer>& gradient_arena() const { return gradient_arena_; }
  int64_t arena_count() const { return arena_count_; }

 private:
  void AddLayer(const LayerText& text);
  Shapes ConnectBottoms(const LayerSpec& spec, std::vector<bool>* needs);
  void ConnectTops(const LayerSpec& spec, const LayerInfo& info);
  void SetLossWeights(const LayerSpec& spec, const LayerInfo& info, Layer<T>& layer);
  void AddParams(const LayerSpec& spec, Layer<T>& layer, const Shapes& bottom);
  void AddParam(const LayerSpec& spec, Layer<T>& layer, int index, const ParamSpec& param);
  void ShareParam(const LayerSpec& spec, Layer<T>& layer, int index, const ParamSpec& param,
                  int owner);
  void FindBackwardNeed();
  void ForceBackward();
  void LayOutParams();
  size_t LetGradientsTakeTurns(std::vector<int64_t>* offsets) const;
  std::pair<int, int> GradientSpan(int param) const;
  void FinishStructure();
  void SeedLoss(RunContext& run, int layer);
  void ReshapeLayer(RunContext& run, size_t layer);
  void Tell(LayerEvents::When when, int layer) {
    if (layer_events_ != nullptr) layer_events_->OnLayer(when, layer);
  }
  void FindFusions();
  Followers<T> NoFollowers() const { return {.backward = sharing_ != MemorySharing::kForward}; }
  // Tells the layer which followers it is to do with it, if it has any.
  void TellFollowers(int layer, bool absorb);
  const Fusion* FusionOf(int layer) const {
    const int index = fusion_of_[static_cast<size_t>(layer)];
    return index < 0 ? nullptr : &fusions_[static_cast<size_t>(index)];
  }
  // Whether an earlier layer, which runs as well, does this one's work in a pass over [low, high].
  bool IsDoneBefore(int layer, int low, int high) const;
  void ApplyMemoryPlan();
  void SetPool(BlobHalf half, const std::shared_ptr<MemoryPool>& pool);
  void BeginForward(RunContext& run, int first);
  void BeginBackward(int first, int last);
  void Release(const std::vector<BlobHalf>& halves);
  bool Fuses() const { return layer_events_ == nullptr; }  // who listens hears every layer

  std::string name_;
  NetState state_;
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  std::vector<std::unique_ptr<Blob<T>>> blobs_;
  std::vector<std::string> blob_names_;
  std::map<std::string, int> blob_index_;  // newest blob of each name
  std::vector<bool> blob_needs_backward_;  // while building
  std::map<std::string, int> available_;   // produced and not yet used, while building
  std::vector<std::string> producer_;      // of each blob: the layer that made it first
  std::vector<float> blob_loss_weights_;
  std::vector<std::vector<Blob<T>*>> bottoms_, tops_;
  std::vector<std::vector<int>> bottom_ids_, top_ids_;
  std::vector<std::vector<bool>> propagate_down_;
  std::vector<std::vector<float>> loss_weights_;  // per layer and top
  std::vector<bool> layer_needs_backward_;
  std::vector<int> input_ids_, output_ids_;
  std::vector<Param<T>> params_;
  std::vector<bool> lr_mult_given_, decay_mult_given_;  // per param, by any sharer so far
  std::vector<std::vector<int>> owner_of_;
  std::map<std::string, int> param_by_name_;
  std::vector<std::vector<ParamDef>> param_defs_;
  std::vector<std::vector<int>> params_final_after_;  // per layer
  std::vector<Shapes> fitting_;  // per layer: bottoms that its parameters are known to fit
  bool fuse_ = true;
  std::vector<Fusion> fusions_;
  std::vector<int> fusion_of_, fused_into_;  // per layer: index in fusions_ of what it does, too;
                                             // the layer that does it; or -1
  std::shared_ptr<Buffer> value_arena_, gradient_arena_;
  GradientLife gradient_life_ = GradientLife::kStep;
  BufferUse gradient_use_ = BufferUse::kOwn;
  std::shared_ptr<Buffer> scratch_ = std::make_shared<Buffer>();  // of layers, while they run
  MemorySharing sharing_ = MemorySharing::kNone;
  std::shared_ptr<MemoryPool> pool_;
  std::set<int> kept_;
  MemoryPlan memory_;
  bool forward_done_ = false;  // while memory is shared: Backward finds what it needs
  int64_t arena_count_ = 0;
  LayerEvents* layer_events_ = nullptr;
};

}  // namespace carafe
