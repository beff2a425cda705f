// Updates within the backward pass: where one worker trains and nobody looks at gradients, each is
// used as soon as it is final, so that few of them are in memory at a time, and while it still is
// in the cache. Those of large matrices are used part by part. The results are the same bits, but
// for large matrices at more than 8 rows, whose sums may be added in another order.
#include <cmath>

#include "carafe/layers/gradient_parts.h"
#include "carafe/solvers/solver.h"

namespace carafe {

// Not where gradients are summed over passes or workers, or used together (clipping), or seen by
// others before or after the update.
template <typename T>
bool Solver<T>::CanUpdateEarly() const {
  return options_.share_memory && !loss_was_bad_ && options_.replica.count == 1 &&
         param().iter_size() == 1 && param().clip_gradients() < 0 && callbacks_.empty() &&
         !keep_updates();
}

// A parameter that no loss depends on moves, too (weight decay), but no layer hands anything over.
template <typename T>
bool Solver<T>::GetsGradient(const Param<T>& param) const {
  const size_t layer = static_cast<size_t>(param.layer);
  return net_->layer_needs_backward()[layer] &&
         net_->layers()[layer]->param_propagate_down(param.index);
}

template <typename T>
void Solver<T>::ChooseWhenToUpdate() {
  early_ = CanUpdateEarly();
  net_->PlaceGradients(stream_, early_ ? GradientLife::kBackward : GradientLife::kStep,
                       group_->shares_memory() ? BufferUse::kShareable : BufferUse::kOwn);
  in_parts_.assign(net_->params().size(), false);
  for (size_t p = 0; p < in_parts_.size(); ++p) {
    const Param<T>& param = net_->params()[p];
    auto* const layer =
        dynamic_cast<GradientParts<T>*>(net_->layers()[static_cast<size_t>(param.layer)].get());
    if (layer == nullptr || param.index != 0) continue;
    const int id = static_cast<int>(p);
    const bool may = early_ && rule_->by_element() && !param.frozen() &&
                     net_->OnlyUserOf(id) >= 0 && GetsGradient(param);
    in_parts_[p] = layer->HandOverParts(
        may ? [this, id](Stream& stream, int64_t first, int64_t count,
                         T* gradient) { UpdatePart(stream, id, first, count, gradient); }
            : PartTaker<T>());
    if (in_parts_[p]) StepOf(id);  // takes the memory of the history, before several threads do
  }
}

// After Forward. A step whose loss is bad may be thrown away by whoever asked for it, so that its
// updates must wait: from now on all do.
template <typename T>
void Solver<T>::BeginEarlyUpdates(double loss) {
  if (std::isfinite(loss)) return BeginUpdates();
  loss_was_bad_ = true;
  Connect(std::string(exchange_name_), *group_, ConnectOptions(connect_));
}

template <typename T>
void Solver<T>::UpdateEarly(int p) {
  const size_t i = static_cast<size_t>(p);
  if (!net_->params()[i].frozen() && !in_parts_[i]) Update(p);
}

template <typename T>
void Solver<T>::UpdatePart(Stream& stream, int p, int64_t first, int64_t count, T* gradient) {
  carafe::Step<T> step = StepOf(p);
  step.count = count;
  step.value += first;
  step.gradient = gradient;
  for (int s = 0; s < rule_->num_slots(); ++s) step.slots[s] += first;
  rule_->Apply(stream, step);
}

template bool Solver<float>::CanUpdateEarly() const;
template bool Solver<double>::CanUpdateEarly() const;
template bool Solver<float>::GetsGradient(const Param<float>&) const;
template bool Solver<double>::GetsGradient(const Param<double>&) const;
template void Solver<float>::ChooseWhenToUpdate();
template void Solver<double>::ChooseWhenToUpdate();
template void Solver<float>::BeginEarlyUpdates(double);
template void Solver<double>::BeginEarlyUpdates(double);
template void Solver<float>::UpdateEarly(int);
template void Solver<double>::UpdateEarly(int);
template void Solver<float>::UpdatePart(Stream&, int, int64_t, int64_t, float*);
template void Solver<double>::UpdatePart(Stream&, int, int64_t, int64_t, double*);

}  // namespace carafe
