// Moves parameters by their gradients: learning rate, clipping, weight decay, the rule and its
// history. Knows neither passes nor ranks; when an update runs is for a ParameterFlow to decide.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/net/net.h"
#include "carafe/proto/messages.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {

// What all updates of one step have in common: made once per step by Updater::NumbersOf, then
// passed to every update.
template <typename T>
struct StepNumbers {
  int64_t iteration = 0;  // the step whose gradients are used; the first is 0
  double rate = 0;        // learning rate, before lr_mult
  T scale = 1;            // of the gradients: clip factor / (iter_size * workers)
};

// What the gradients hold when the updates of a step begin.
enum class GradientsHold { kSumsOverWorkers, kMeansOverWorkers };

// Some elements of one parameter, wherever their memory lies: in the net, or in a shard that a
// strategy owns together with its part of the history. All pointers lie on the stream's device.
template <typename T>
struct ParamSlice {
  int64_t count = 0;
  T* value = nullptr;
  T* gradient = nullptr;  // raw sum; the update clears it
  std::array<T*, UpdateArgs<T>::kMaxSlots> history = {};
};

struct UpdaterSettings {
  int workers = 1;            // gradients are sums over them
  bool keep_updates = false;  // leave the update in the gradient instead of 0
  Trace* trace = nullptr;
};

// Calls for different parameters, or for different slices of one, may run at the same time on
// different threads; NumbersOf and UpdateFrozen may not.
template <typename T>
class Updater {
 public:
  // The net outlives the updater.
  Updater(const SolverParameter& param, Net<T>& net, const UpdaterSettings& settings);

  // With clip_gradients it reads all gradients, so they must be complete and not yet used.
  StepNumbers<T> NumbersOf(Stream& stream, int64_t iteration, double rate,
                           GradientsHold hold) const;
  // The same where nobody has all gradients: `squares` is the sum of their squares, as sums over
  // workers, and is read with clip_gradients only.
  StepNumbers<T> NumbersOf(int64_t iteration, double rate, double squares) const;
  bool clips() const { return param_.clip_gradients() >= 0; }

  // One parameter of the net, with the gradient in its diff.
  void Update(Stream& stream, int param, const StepNumbers<T>& numbers);

  // Whether the rule moves each element by itself, so that a parameter may be updated in slices.
  bool by_element() const { return rule_->by_element(); }
  // Elements [first, first + count) of a parameter of the net, with the gradient somewhere else.
  ParamSlice<T> SliceOf(Stream& stream, int param, int64_t first, int64_t count, T* gradient);
  // One step of the rule for elements of parameter `param`, which gives the multipliers of rate and
  // decay; a part of a parameter only if by_element().
  void UpdateSlice(Stream& stream, int param, const ParamSlice<T>& slice,
                   const StepNumbers<T>& numbers) const;

  // At rate 0 a parameter stays as it is, but in Caffe weight decay still moves the history of some
  // rules, and snapshots show that.
  void UpdateFrozen(Stream& stream, const StepNumbers<T>& numbers);

  // Between steps: from now on gradients are sums over so many workers.
  void set_workers(int workers) { settings_.workers = workers; }

  bool keep_updates() const { return settings_.keep_updates; }
  int num_slots() const { return rule_->num_slots(); }
  // history()[s * params + p]: slot s of parameter p, in the order of .solverstate.
  std::vector<Blob<T>>& history() { return history_; }
  Blob<T>& history(int slot, int param) {
    return At(history_, slot * Count(net_.params()) + param);
  }

 private:
  double SquaresOf(Stream& stream) const;
  StepNumbers<T> NumbersOf(int64_t iteration, double rate, double squares,
                           GradientsHold hold) const;
  int DivisorOf(GradientsHold hold) const {
    return hold == GradientsHold::kSumsOverWorkers ? settings_.workers : 1;
  }
  std::array<T*, UpdateArgs<T>::kMaxSlots> HistoryOf(Stream& stream, int param);

  const SolverParameter& param_;
  Net<T>& net_;
  UpdaterSettings settings_;
  const std::unique_ptr<UpdateRule<T>> rule_;
  std::vector<Blob<T>> history_;
  std::vector<int> frozen_with_history_;  // whose history weight decay moves
};

}  // namespace carafe
