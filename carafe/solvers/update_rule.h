// How a parameter moves, given its gradient: one .cpp per rule in rules/. No protobuf here: rules
// are kernels and may be compiled as CUDA.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/base/host_device.h"
#include "carafe/base/registry.h"
#include "carafe/core/stream.h"

namespace carafe {

// How LARS sets the rate of a parameter (rules/lars.cpp): as published, or as a fork does.
enum class LocalRate { kPublished, kLarcScale, kLarcClip, kIntel };

// Settings of all rules, from the solver's file.
struct RuleConfig {
  double momentum = 0;
  double momentum2 = 0.999;
  double delta = 1e-8;
  double rms_decay = 0.99;
  double trust_coefficient = 0.001;
  LocalRate local_rate = LocalRate::kPublished;
  double weight_decay = 0;  // without decay_mult
};

// One update of one parameter: everything that a rule's functor needs, by value. All pointers lie
// on the stream's device.
template <typename T>
struct UpdateArgs {
  static constexpr int kMaxSlots = 2;

  int64_t count = 0;
  T* value = nullptr;
  T* gradient = nullptr;     // raw sum over passes and workers
  T* slots[kMaxSlots] = {};  // history, as in .solverstate
  T rate = 0;                // learning rate times lr_mult
  T base_rate = 0;           // the learning rate alone
  T scale = 1;               // clip / (iter_size * workers)
  T l2 = 0, l1 = 0;          // weight decay times decay_mult, for one of the two
  int64_t iteration = 0;     // before this update; the first is 0
  bool keep_update = false;  // leave the update in `gradient` (snapshot_diff, Python) instead of 0

  CARAFE_HD T Gradient(int64_t i) const {
    const T w = value[i];
    const T sign = w > 0 ? T(1) : w < 0 ? T(-1) : T(0);
    return scale * gradient[i] + l2 * w + l1 * sign;
  }
  // The two parts of it by themselves, for rules that keep them apart.
  CARAFE_HD T LossGradient(int64_t i) const { return scale * gradient[i]; }
  CARAFE_HD T Decay(int64_t i) const {
    const T w = value[i];
    return l2 * w + l1 * (w > 0 ? T(1) : w < 0 ? T(-1) : T(0));
  }
  // value -= change, and the gradient is cleared for the next iteration in the same pass.
  CARAFE_HD void Move(int64_t i, T change) const {
    value[i] -= change;
    gradient[i] = keep_update ? change : T(0);
  }
};

// Stateless but for its settings; used by the threads that own the streams.
template <typename T>
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual int num_slots() const = 0;  // history arrays per parameter
  // Whether each element moves by itself, so that a parameter may be updated in parts.
  virtual bool by_element() const { return true; }
  virtual void Apply(Stream& stream, const UpdateArgs<T>& args) = 0;
};

struct RuleInfo {
  std::string type;
  std::string summary;
  std::string refuses = "";           // a setting that the rule has no use for: "momentum"
  bool history_ignores_rate = false;  // the history moves even at rate 0, of weight decay alone
  bool refuses_l1 = false;            // its formula knows weight decay as L2 only
};

struct RuleEntry {
  RuleInfo info;
  std::function<std::unique_ptr<UpdateRule<float>>(const RuleConfig&)> make_float;
  std::function<std::unique_ptr<UpdateRule<double>>(const RuleConfig&)> make_double;
};

using RuleRegistry = Registry<RuleEntry>;

template <template <typename> class R>
struct RegisterUpdateRule {
  explicit RegisterUpdateRule(const RuleInfo& info) {
    RuleRegistry::Instance().Add(
        info.type, {info, [](const RuleConfig& c) { return std::make_unique<R<float>>(c); },
                    [](const RuleConfig& c) { return std::make_unique<R<double>>(c); }});
  }
};

}  // namespace carafe
