#include "carafe/solvers/updater.h"

#include <cmath>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

LocalRate LocalRateOf(const SolverParameter& param) {
  const auto fork = ForkPart<ForkSolverParameter>(param);
  if (fork.local_lr_auto()) return LocalRate::kIntel;
  if (!fork.larc()) return LocalRate::kPublished;
  return fork.larc_policy() == "clip" ? LocalRate::kLarcClip : LocalRate::kLarcScale;
}

RuleConfig RuleConfigOf(const SolverParameter& param) {
  return {.momentum = param.momentum(),
          .momentum2 = param.momentum2(),
          .delta = param.delta(),
          .rms_decay = param.rms_decay(),
          .trust_coefficient = param.trust_coefficient(),
          .local_rate = LocalRateOf(param),
          .weight_decay = param.weight_decay()};
}

const RuleEntry& FindRule(const SolverParameter& param) {
  const RuleEntry* entry = RuleRegistry::Instance().Find(param.type());
  Ensure(entry != nullptr, "the solver's type was not checked");
  return *entry;
}

template <typename T>
std::unique_ptr<UpdateRule<T>> MakeRule(const SolverParameter& param) {
  if constexpr (std::is_same_v<T, float>) {
    return FindRule(param).make_float(RuleConfigOf(param));
  } else {
    return FindRule(param).make_double(RuleConfigOf(param));
  }
}

}  // namespace

template <typename T>
Updater<T>::Updater(const SolverParameter& param, Net<T>& net, const UpdaterSettings& settings)
    : param_(param), net_(net), settings_(settings), rule_(MakeRule<T>(param)) {
  for (int s = 0; s < rule_->num_slots(); ++s) {
    for (const Param<T>& p : net_.params()) history_.emplace_back(p.blob->shape());
  }
  if (!FindRule(param).info.history_ignores_rate) return;
  for (int p = 0; p < Count(net_.params()); ++p) {
    const Param<T>& frozen = At(net_.params(), p);
    if (frozen.frozen() && param_.weight_decay() * frozen.decay_mult != 0)
      frozen_with_history_.push_back(p);
  }
}

template <typename T>
StepNumbers<T> Updater<T>::NumbersOf(Stream& stream, int64_t iteration, double rate,
                                     GradientsHold hold) const {
  return NumbersOf(iteration, rate, clips() ? SquaresOf(stream) : 0, hold);
}

template <typename T>
StepNumbers<T> Updater<T>::NumbersOf(int64_t iteration, double rate, double squares) const {
  return NumbersOf(iteration, rate, squares, GradientsHold::kSumsOverWorkers);
}

// clip_gradients bounds the L2 norm of the mean gradient summed over iter_size, before it is
// divided by iter_size.
template <typename T>
StepNumbers<T> Updater<T>::NumbersOf(int64_t iteration, double rate, double squares,
                                     GradientsHold hold) const {
  T clip = 1;
  if (clips()) {
    const double norm = std::sqrt(squares) / DivisorOf(hold);
    const double limit = param_.clip_gradients();
    clip = static_cast<T>(norm > limit ? limit / norm : 1.0);
  }
  return {.iteration = iteration,
          .rate = rate,
          .scale = clip / static_cast<T>(param_.iter_size() * DivisorOf(hold))};
}

// Added parameter by parameter, in learnable order: the same bits on every rank, and those of
// shards (exchange/shards.h).
template <typename T>
double Updater<T>::SquaresOf(Stream& stream) const {
  double squares = 0;
  for (const Param<T>& p : net_.params()) {
    if (!p.frozen()) squares += SumOfSquares(stream, p.blob->count(), p.blob->diff(stream));
  }
  return squares;
}

template <typename T>
std::array<T*, UpdateArgs<T>::kMaxSlots> Updater<T>::HistoryOf(Stream& stream, int param) {
  std::array<T*, UpdateArgs<T>::kMaxSlots> slots = {};
  for (int s = 0; s < rule_->num_slots(); ++s) {
    At(slots, s) = At(history_, s * Count(net_.params()) + param).mutable_data(stream);
  }
  return slots;
}

template <typename T>
void Updater<T>::Update(Stream& stream, int param, const StepNumbers<T>& numbers) {
  const Param<T>& p = At(net_.params(), param);
  const TraceSpan span(settings_.trace, "update", p.name);
  UpdateSlice(stream, param,
              {.count = p.blob->count(),
               .value = p.blob->mutable_data(stream),
               .gradient = p.blob->mutable_diff(stream),
               .history = HistoryOf(stream, param)},
              numbers);
}

template <typename T>
ParamSlice<T> Updater<T>::SliceOf(Stream& stream, int param, int64_t first, int64_t count,
                                  T* gradient) {
  ParamSlice<T> slice{.count = count,
                      .value = At(net_.params(), param).blob->mutable_data(stream) + first,
                      .gradient = gradient,
                      .history = HistoryOf(stream, param)};
  for (int s = 0; s < rule_->num_slots(); ++s) At(slice.history, s) += first;
  return slice;
}

template <typename T>
void Updater<T>::UpdateSlice(Stream& stream, int param, const ParamSlice<T>& slice,
                             const StepNumbers<T>& numbers) const {
  const Param<T>& p = At(net_.params(), param);
  const T decay = static_cast<T>(param_.weight_decay() * p.decay_mult);
  const bool l1 = param_.regularization_type() == "L1";
  UpdateArgs<T> args{.count = slice.count,
                     .value = slice.value,
                     .gradient = slice.gradient,
                     .rate = static_cast<T>(numbers.rate * p.lr_mult),
                     .base_rate = static_cast<T>(numbers.rate),
                     .scale = numbers.scale,
                     .l2 = l1 ? T(0) : decay,
                     .l1 = l1 ? decay : T(0),
                     .iteration = numbers.iteration,
                     .keep_update = settings_.keep_updates};
  for (int s = 0; s < rule_->num_slots(); ++s) args.slots[s] = At(slice.history, s);
  rule_->Apply(stream, args);
}

template <typename T>
void Updater<T>::UpdateFrozen(Stream& stream, const StepNumbers<T>& numbers) {
  for (const int p : frozen_with_history_) {
    At(net_.params(), p).blob->ZeroDiff(stream);  // no loss moves it, even with force_backward
    Update(stream, p, numbers);
  }
}

template class Updater<float>;
template class Updater<double>;

}  // namespace carafe
