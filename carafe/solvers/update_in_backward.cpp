#include "carafe/solvers/update_in_backward.h"

#include "carafe/base/index.h"

namespace carafe {
namespace {

template <typename T>
Layer<T>& OwnerOf(const Net<T>& net, int param) {
  return *At(net.layers(), At(net.params(), param).layer);
}

// A parameter that no loss depends on moves, too (weight decay), but its layer hands nothing over.
template <typename T>
bool GetsGradient(const Net<T>& net, const Param<T>& param) {
  return At(net.layer_needs_backward(), param.layer) &&
         At(net.layers(), param.layer)->param_propagate_down(param.index);
}

}  // namespace

template <typename T>
UpdateInBackward<T>::UpdateInBackward(const FlowSetup<T>& setup)
    : net_(setup.team.net(0)),
      stream_(setup.team.stream(0)),
      updater_(setup.updater),
      in_parts_(net_.params().size()),
      votes_(MakeExchange<T>(setup.exchange, {.group = setup.group,
                                              .params = {},
                                              .update = {},
                                              .staleness = setup.options.staleness,
                                              .server = setup.options.server,
                                              .scheme = setup.options.scheme})) {
  net_.PlaceGradients(stream_, GradientLife::kBackward);
  for (int p = 0; p < Count(net_.params()); ++p) {
    if (!MayHandOverParts(p)) continue;
    const auto update = [this, p](Stream& stream, int64_t first, int64_t count, T* gradient) {
      updater_.UpdateSlice(stream, p, updater_.SliceOf(stream, p, first, count, gradient),
                           numbers_);
    };
    if (!OwnerOf(net_, p).HandOverParts(update)) continue;
    in_parts_[static_cast<size_t>(p)] = true;
    updater_.SliceOf(stream_, p, 0, 0, nullptr);  // takes the history's memory before threads do
  }
}

template <typename T>
UpdateInBackward<T>::~UpdateInBackward() {
  for (int p = 0; p < Count(net_.params()); ++p) {
    if (At(in_parts_, p)) OwnerOf(net_, p).HandOverParts({});
  }
}

template <typename T>
bool UpdateInBackward<T>::MayHandOverParts(int param) const {
  const Param<T>& p = At(net_.params(), param);
  return p.index == 0 && updater_.by_element() && !p.frozen() && net_.OnlyUserOf(param) >= 0 &&
         GetsGradient(net_, p);
}

template <typename T>
void UpdateInBackward<T>::BeginUpdates(const StepStart& step) {
  numbers_ =
      updater_.NumbersOf(stream_, step.iteration, step.rate, GradientsHold::kSumsOverWorkers);
}

template <typename T>
void UpdateInBackward<T>::GradientFinal(int, int param) {
  if (At(net_.params(), param).frozen() || At(in_parts_, param)) return;
  updater_.Update(stream_, param, numbers_);
}

template class UpdateInBackward<float>;
template class UpdateInBackward<double>;

}  // namespace carafe
