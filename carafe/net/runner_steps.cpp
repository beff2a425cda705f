// Preparing the steps of a Runner.
#include "carafe/net/runner.h"

namespace carafe {
namespace {

void Append(const std::vector<int>& from, std::vector<int>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

// The halves that die at a layer; the plan of a net that shares no memory is empty.
const std::vector<BlobHalf>& DeadAt(const std::vector<std::vector<BlobHalf>>& dead, int layer) {
  static const std::vector<BlobHalf> kNone;
  return dead.empty() ? kNone : At(dead, layer);
}

}  // namespace

template <typename T>
void Runner<T>::Prepare(std::vector<Fusion> fusions) {
  fusions_ = std::move(fusions);
  for (const auto& layer : graph_.layers) layer->Fuse({});
  fused_ = StepsOf(0, graph_.size() - 1, /*fuse=*/true);
  single_ = StepsOf(0, graph_.size() - 1, /*fuse=*/false);
}

template <typename T>
const typename Runner<T>::Steps& Runner<T>::StepsFor(int low, int high, Steps* own) const {
  const bool fuse = layer_events_ == nullptr;
  if (low == 0 && high == graph_.size() - 1) return fuse ? fused_ : single_;
  return *own = StepsOf(low, high, fuse);
}

template <typename T>
typename Runner<T>::Steps Runner<T>::StepsOf(int low, int high, bool fuse) const {
  std::vector<Fusion> within;
  for (const Fusion& fusion : fusions_) {
    if (fuse && fusion.producer >= low && fusion.last() <= high) within.push_back(fusion);
  }
  const std::vector<int> fused_into = FusedInto(within, graph_.size());
  Steps steps;
  for (int l = low; l <= high; ++l) {
    if (At(fused_into, l) >= 0) {  // computed before; what it was the last to read is dead now
      const std::vector<BlobHalf>& dead = DeadAt(memory_.plan().dead_after_forward, l);
      std::vector<BlobHalf>& last = steps.forward.back().dead;
      last.insert(last.end(), dead.begin(), dead.end());
      continue;
    }
    const auto found = std::ranges::find(within, l, &Fusion::producer);
    const Fusion* fusion = found == within.end() ? nullptr : &*found;
    steps.forward.push_back(ForwardStepOf(l, fusion));
    steps.backward.push_back(BackwardStepOf(l, fusion));
  }
  std::ranges::reverse(steps.backward);
  return steps;
}

template <typename T>
Followers<T> Runner<T>::FollowersOf(const Fusion& fusion) const {
  const auto layer = [&](int id) { return id < 0 ? nullptr : At(graph_.layers, id).get(); };
  return {layer(fusion.norm), layer(fusion.scale), fusion.relu >= 0};
}

template <typename T>
ForwardStep<T> Runner<T>::ForwardStepOf(int l, const Fusion* fusion) const {
  ForwardStep<T> step{.id = l,
                      .layer = At(graph_.layers, l).get(),
                      .bottoms = At(graph_.bottoms, l),
                      .tops = At(graph_.tops, l),
                      .reads = params_.UsedBy(l),
                      .dead = DeadAt(memory_.plan().dead_after_forward, l)};
  if (fusion != nullptr) {
    step.followers = FollowersOf(*fusion);
    for (const int follower : fusion->followers()) {
      if (follower >= 0) Append(params_.UsedBy(follower), &step.reads);
    }
  }
  for (int t = 0; t < Count(step.tops); ++t) {
    const float weight = At(At(graph_.loss_weights, l), t);
    if (weight != 0) step.losses.push_back({At(step.tops, t), weight});
  }
  return step;
}

template <typename T>
BackwardStep<T> Runner<T>::BackwardStepOf(int l, const Fusion* fusion) const {
  BackwardStep<T> step{.id = l,
                       .layer = At(graph_.layers, l).get(),
                       .bottoms = At(graph_.bottoms, l),
                       .tops = At(graph_.tops, l),
                       .propagate_down = &At(graph_.propagate_down, l),
                       .needed = At(graph_.needs_backward, l),
                       .dead = DeadAt(memory_.plan().dead_after_backward, l)};
  if (fusion != nullptr) {
    if (At(graph_.needs_backward, fusion->last())) step.followers = FollowersOf(*fusion);
    for (const int follower : fusion->followers()) {
      if (follower >= 0) Append(params_.FinalAfter(follower), &step.final_params);
    }
  }
  Append(params_.FinalAfter(l), &step.final_params);
  for (int i = 0; step.needed && i < Count(params_.UsedBy(l)); ++i) {
    if (step.layer->gives_factors(i)) step.factors.push_back({i, At(params_.UsedBy(l), i)});
  }
  return step;
}

template void Runner<float>::Prepare(std::vector<Fusion>);
template void Runner<double>::Prepare(std::vector<Fusion>);
template const Runner<float>::Steps& Runner<float>::StepsFor(int, int, Steps*) const;
template const Runner<double>::Steps& Runner<double>::StepsFor(int, int, Steps*) const;

}  // namespace carafe
