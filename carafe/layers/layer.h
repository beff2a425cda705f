// What every layer is: shapes inferred without memory, parameters declared, one body per direction,
// and the properties by which a net plans memory, fusion and updates. A layer sees its surroundings
// only through RunContext; it never knows whether it runs on CPU or GPU.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carafe/base/index.h"
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

// Fusion (net/plan.h): a layer computes those that follow it in place on its top in the same pass
// over memory. What a layer is as such a follower:
enum class FollowerRole {
  kNone,
  kRelu,          // max(0, x)
  kChannelScale,  // blob 0 is a learned factor per channel (axis 1), blob 1, if any, a shift
  kChannelNorm,   // s_c x + t_c per channel, by ChannelCoefficients; s and t do not depend on x
};
// Which followers a layer can compute.
struct FusibleFollowers {
  bool norm = false;  // only in nets without Backward; with what can be fused into the norm
  bool scale = false;
  bool relu = false;
};
template <typename T>
class Layer;
// Those that it is to compute, in this order.
template <typename T>
struct Followers {
  Layer<T>* norm = nullptr;   // of kChannelNorm
  Layer<T>* scale = nullptr;  // of kChannelScale
  bool relu = false;
};

// Takes elements [first, first + count) of a gradient, and sets them to 0. Called by several
// threads at a time, for different parts; the stream is the calling thread's.
template <typename T>
using PartTaker = std::function<void(Stream& stream, int64_t first, int64_t count, T* gradient)>;

// The gradient of a parameter as a product: left^T right, of the matrices left (rows, left_width)
// and right (rows, right_width), which is row-major the parameter's own (left_width, right_width).
template <typename T>
struct Factors {
  int64_t rows = 0, left_width = 0, right_width = 0;
  const T* left = nullptr;
  const T* right = nullptr;
};

struct AlgorithmChoices;
enum class ConvolutionAlgorithm;
struct PlannedWay;

// Run by one thread at a time.
template <typename T>
class Layer {
 public:
  explicit Layer(const LayerSpec& spec) : spec_(spec) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name(); }

  // ---- Every layer: shapes, parameters, the two passes.

  // Pure: touches no blob and takes no memory. Throws ConfigError (through spec().Check) for shapes
  // that do not fit.
  virtual Shapes InferShapes(const Shapes& bottom) const = 0;
  virtual std::vector<ParamDef> DeclareParams(const Shapes& bottom) const;
  // Called before every Forward; layers whose output shape depends on data override it. Infers
  // again only where a bottom has changed.
  virtual void Reshape(RunContext& run, Blobs<T> bottom, Blobs<T> top);
  virtual void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) = 0;
  // Adds to the parameters' diffs (iter_size > 1 needs that); overwrites the diffs of the bottoms
  // that propagate_down names.
  virtual void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                        Blobs<T> bottom) = 0;

  // ---- Properties. The defaults are right, if not always fast, for any layer; override one only
  // where the layer differs.

  // The default is all; a layer that reads less lets the others' memory be used again earlier.
  virtual BackwardReads ReadsInBackward() const { return {}; }
  virtual TopSharing SharesBottom() const { return {}; }
  // Whether force_backward may ask for the gradient of this bottom (labels: no).
  virtual bool AllowForceBackward(int /*bottom*/) const { return true; }
  // Multiply-adds of one Forward, for `carafe summary` and benchmarks. Only products of matrices
  // count (one for a multiplication with its addition, as in publications): activations, pooling,
  // normalisation, biases and look-ups are 0. Throws ConfigError for a number beyond 63 bits.
  virtual int64_t MultiplyAdds(const Shapes& /*bottom*/) const { return 0; }
  // Whether axes 0 and 1 of bottom 0 and of the tops are the steps and sequences of a batch.
  virtual bool TakesSequences() const { return false; }
  // First values of a parameter, as many as it has elements, instead of those of its filler.
  virtual std::optional<std::vector<double>> InitialValuesOf(int /*param*/) const { return {}; }
  // Restores the state that the last `passes` Forwards changed in the layer itself (parameters are
  // the net's business), so that they can be run again with the same results and without other
  // effects. False: it cannot, because Forward acts outside of the net or the old state is gone.
  virtual bool RewindForward(Stream& /*stream*/, int /*passes*/) { return true; }

  // ---- Fusion.

  virtual FollowerRole RoleAsFollower() const { return FollowerRole::kNone; }
  virtual FusibleFollowers CanFuse() const { return {}; }
  // What the next Forward (Backward) computes as well: some of CanFuse(). Backward then gets the
  // gradient of the last follower's top, and adds to the gradients of the scale's parameters.
  virtual void Fuse(const Followers<T>& /*followers*/) {}
  // Of kChannelNorm: s and t of now, t for an x that has shift_c (null: 0) added to it first.
  virtual void ChannelCoefficients(Stream& stream, const Blob<T>* shift, Blob<T>* s, Blob<T>* t);

  // ---- What the net lets a layer know. Any of these may change between two passes.

  // False: no Backward will follow, so that nothing needs to be kept for it.
  virtual void KeepForBackward(bool keep) { keeps_for_backward_ = keep; }
  bool keeps_for_backward() const { return keeps_for_backward_; }
  // How many leading axes of bottom 0 count the rows of the batch: 1, or 2 where it holds steps and
  // sequences. Row r of worker w is slot r * workers + w either way, for the data layer dealt out
  // the records step by step. For layers that draw random numbers for each row.
  virtual void SetRowAxes(int /*axes*/) {}
  // Memory of the whole net in which nothing is kept between two calls.
  virtual void SetScratch(std::shared_ptr<Buffer> /*scratch*/) {}

  // ---- Layers with several algorithms (layers/planned.h).

  virtual void SetChoices(std::shared_ptr<const AlgorithmChoices> /*choices*/) {}
  // All algorithms for this shape of bottom 0, those of blocked formats timed if `runs` is not 0;
  // empty where there is one algorithm only.
  virtual std::vector<PlannedWay> Ways(Stream& stream, const Shape& bottom, int runs);
  // Adds the fastest algorithm of each direction, by AlgorithmChoices' key, unless it is there.
  virtual void Measure(Stream& /*stream*/, const Shape& /*bottom*/, int /*runs*/,
                       std::map<std::string, ConvolutionAlgorithm>* /*fastest*/) {}

  // ---- Gradients that are not added to a parameter's diff.

  // From the next Backward on the gradient of blob 0 goes to the taker part by part, so that it
  // never is in memory as a whole (that of VGG-16's largest matrix takes 392 MiB), after the last
  // read of the values. False: the layer does not do so. Null: to the diff again.
  virtual bool HandOverParts(PartTaker<T> /*taker*/) { return false; }
  // Whether the gradient of this parameter is a product of two matrices that GradientFactors gives.
  virtual bool HasFactors(int /*param*/) const { return false; }
  // The factors of the last Backward; valid until the memory of these blobs is used again. Where
  // gives_factors(param), Backward leaves the parameter's diff alone.
  virtual Factors<T> GradientFactors(int param, Stream& stream, Blobs<T> top, Blobs<T> bottom);
  bool gives_factors(int param) const { return Flag(gives_factors_, param, false); }
  void set_gives_factors(int param, bool value) { SetFlag(&gives_factors_, param, value, false); }

  // Parameters; the net makes, places and shares them.
  std::vector<std::shared_ptr<Blob<T>>>& blobs() { return blobs_; }
  Blob<T>& blob(int i) { return *At(blobs_, i); }
  const Blob<T>& blob(int i) const { return *At(blobs_, i); }
  bool param_propagate_down(int i) const { return Flag(param_propagate_down_, i, true); }
  void set_param_propagate_down(int i, bool value) {
    SetFlag(&param_propagate_down_, i, value, true);
  }

 private:
  static bool Flag(const std::vector<bool>& flags, int i, bool absent) {
    return i < Count(flags) ? flags[static_cast<size_t>(i)] : absent;
  }
  static void SetFlag(std::vector<bool>* flags, int i, bool value, bool absent) {
    if (i >= Count(*flags)) flags->resize(static_cast<size_t>(i) + 1, absent);
    (*flags)[static_cast<size_t>(i)] = value;
  }

  const LayerSpec spec_;
  std::vector<std::shared_ptr<Blob<T>>> blobs_;
  std::vector<bool> param_propagate_down_;  // absent: true
  std::vector<bool> gives_factors_;         // absent: false
  bool keeps_for_backward_ = true;
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
