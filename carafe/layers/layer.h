// What every layer is: shapes inferred without memory, parameters declared, one body per direction.
// A layer sees its surroundings only through RunContext; it never knows whether it runs on CPU or
// GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/base/registry.h"
#include "carafe/core/blob.h"
#include "carafe/core/run_context.h"
#include "carafe/core/shape.h"
#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

// A layer's settings and where they were written. Copyable; owns its parameter message.
class LayerSpec {
 public:
  LayerSpec(LayerParameter param, Phase phase, Place place = {})
      : param_(std::move(param)), phase_(phase), place_(std::move(place)) {}

  const LayerParameter& param() const { return param_; }
  const std::string& name() const { return param_.name(); }
  Phase phase() const { return phase_; }
  const Place& place() const { return place_; }

  // Throws ConfigError at the deepest part of `path` that the file has:
  //   lenet.prototxt:31:3: error: layer "ip1" (InnerProduct): num_output is 0 or missing
  void Check(bool condition, std::string_view path, const std::string& what,
             const std::string& fix) const {
    if (!condition) Fail(path, what, fix);
  }
  // Whether top 0 is bottom 0.
  bool InPlace() const {
    return param_.bottom_size() > 0 && param_.top_size() > 0 && param_.bottom(0) == param_.top(0);
  }
  [[noreturn]] void Fail(std::string_view path, const std::string& what,
                         const std::string& fix) const;

 private:
  LayerParameter param_;
  Phase phase_;
  Place place_;
};

// A learnable (or carried) array: its shape and how it starts.
struct ParamDef {
  Shape shape;
  FillerParameter filler;  // default: constant 0
  bool learned = true;     // false: a statistic that Forward updates; lr_mult and decay_mult are 0
};

// What a net must know to let memory be used again (net/memory_plan.h).
struct BackwardReads {
  bool bottom = true, top = true;  // data that Backward looks at, apart from their memory format
  bool kept = false;               // and bottom 0's of before Forward, which the layer keeps itself
};
struct TopSharing {
  bool data = false, diff = false;  // all tops are views of bottom 0's halves (by Reshape)
};

template <typename T>
class Layer {
 public:
  explicit Layer(const LayerSpec& spec) : spec_(spec) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name(); }

  // Pure: touches no blob and takes no memory. Throws ConfigError (through spec().Check) for shapes
  // that do not fit.
  virtual Shapes InferShapes(const Shapes& bottom) const = 0;
  virtual std::vector<ParamDef> DeclareParams(const Shapes& bottom) const;
  // Called before every Forward; layers whose output shape depends on data override it. Infers
  // anew only where a bottom has changed.
  virtual void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top);
  virtual void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) = 0;
  // Adds to the parameters' diffs (iter_size > 1 needs that); overwrites the diffs of the bottoms
  // that propagate_down names.
  virtual void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                        Blobs<T> bottom) = 0;
  // To be on the safe side all; a layer that says less lets the others die before Backward.
  virtual BackwardReads ReadsInBackward() const { return {}; }
  virtual TopSharing SharesBottom() const { return {}; }
  // Whether force_backward may ask for the gradient of this bottom (labels: no).
  virtual bool AllowForceBackward(int /*bottom*/) const { return true; }

  // Parameters; the net makes, places and shares them.
  std::vector<std::shared_ptr<Blob<T>>>& blobs() { return blobs_; }
  Blob<T>& blob(int i) { return *blobs_[static_cast<size_t>(i)]; }
  bool param_propagate_down(int i) const {
    return static_cast<size_t>(i) >= param_propagate_down_.size() ||
           param_propagate_down_[static_cast<size_t>(i)];
  }
  void set_param_propagate_down(int i, bool value);

 private:
  const LayerSpec spec_;
  std::vector<std::shared_ptr<Blob<T>>> blobs_;
  std::vector<bool> param_propagate_down_;  // absent: true
  Shapes seen_, inferred_;  // by Reshape: bottoms, and the tops that follow from them
};

// How many bottoms or tops a layer takes.
struct Arity {
  static constexpr int kAny = 1 << 20;
  int min = 0;
  int max = kAny;
};

struct LayerInfo {
  std::string type;
  Arity bottoms, tops;
  std::string summary;        // one line for `carafe layers` and docs/layers.md
  bool is_loss = false;       // loss_weight 1 on top 0 by default; a missing top is made
  bool as_many_tops = false;  // exactly one top per bottom
  bool is_data = false;       // brings its own records; deals them over the workers
  bool in_place = false;      // a top may be a bottom
};

struct LayerEntry {
  LayerInfo info;
  std::function<std::unique_ptr<Layer<float>>(const LayerSpec&)> make_float;
  std::function<std::unique_ptr<Layer<double>>(const LayerSpec&)> make_double;
};

using LayerRegistry = Registry<LayerEntry>;

template <template <typename> class L>
struct RegisterLayer {
  explicit RegisterLayer(const LayerInfo& info) {
    LayerRegistry::Instance().Add(
        info.type, {info, [](const LayerSpec& spec) { return std::make_unique<L<float>>(spec); },
                    [](const LayerSpec& spec) { return std::make_unique<L<double>>(spec); }});
  }
};

// The registered entry of the spec's type; throws ConfigError with the nearest type names.
const LayerEntry& FindLayer(const LayerSpec& spec);
// Throws ConfigError for an unknown type, settings that cannot be right, and a layer that cannot
// run in place but has a bottom and a top of the same name.
template <typename T>
std::unique_ptr<Layer<T>> MakeLayer(const LayerSpec& spec);

// The key of this layer's random draws in this pass.
template <typename T>
RandomKey DrawKey(const RunContext& run, const Layer<T>& layer) {
  return MakeRandomKey(run.pass.seed, layer.name(), run.pass.index);
}

}  // namespace carafe
