// Running a net; building it is in net_build.cpp, parameters in net_params.cpp.
#include "carafe/net/net.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/planned.h"
#include "carafe/net/plan.h"

namespace carafe {
template <typename T>
double Net<T>::Forward(RunContext& run, ParamEvents* events) {
  return ForwardFromTo(run, 0, static_cast<int>(layers_.size()) - 1, events);
}

template <typename T>
double Net<T>::ForwardFromTo(RunContext& run, int first, int last, ParamEvents* events) {
  double loss = 0;
  if (pool_ != nullptr) BeginForward(run, first);
  for (int i = first; i <= last; ++i) {
    const size_t l = static_cast<size_t>(i);
    Layer<T>& layer = *layers_[l];
    if (IsDoneBefore(i, first, last)) {
      if (pool_ != nullptr) Release(memory_.dead_after_forward[l]);
      continue;
    }
    const TraceSpan span(run.trace, "forward", layer.name());
    Tell(LayerEvents::kBeforeForward, i);
    ReshapeLayer(run, l);
    const Fusion* fusion = FusionOf(i);
    if (fusion != nullptr) TellFollowers(i, Fuses() && fusion->last() <= last);
    if (events != nullptr) {
      for (const int param : owner_of_[l]) events->BeforeRead(param);
      if (fusion != nullptr) {
        for (const int follower : fusion->followers()) {
          if (follower < 0 || !IsDoneBefore(follower, first, last)) continue;
          for (const int param : owner_of_[static_cast<size_t>(follower)]) {
            events->BeforeRead(param);
          }
        }
      }
    }
    layer.Forward(run, bottoms_[l], tops_[l]);
    for (size_t t = 0; t < tops_[l].size(); ++t) {
      const float weight = loss_weights_[l][t];
      if (weight == 0) continue;
      const Blob<T>& top = *tops_[l][t];
      loss += weight * Sum(run.stream, top.count(), top.data(run.stream));
    }
    SeedLoss(run, i);
    Tell(LayerEvents::kAfterForward, i);
    if (pool_ != nullptr) Release(memory_.dead_after_forward[l]);
  }
  return loss;
}

// Parameters have their shapes since the net was built: a bottom that has changed so that others
// would be needed (more channels) is refused before any kernel reads beyond their end.
template <typename T>
void Net<T>::ReshapeLayer(RunContext& run, size_t l) {
  Layer<T>& layer = *layers_[l];
  layer.Reshape(run, bottoms_[l], tops_[l]);
  if (layer.blobs().empty()) return;
  fitting_.resize(layers_.size());
  const auto same = [](const Blob<T>* bottom, const Shape& shape) {
    return bottom->shape() == shape;
  };
  if (std::equal(bottoms_[l].begin(), bottoms_[l].end(), fitting_[l].begin(), fitting_[l].end(),
                 same))
    return;
  Shapes shapes;
  for (const Blob<T>* bottom : bottoms_[l]) shapes.push_back(bottom->shape());
  const std::vector<ParamDef> needed = layer.DeclareParams(shapes);
  for (size_t i = 0; i < std::min(needed.size(), layer.blobs().size()); ++i) {
    const Shape& there = layer.blobs()[i]->shape();
    layer.spec().Check(
        needed[i].shape.Count() == there.Count(), "",
        fmt::format("its bottom is {} now, which needs a parameter {} of shape {}; it has {}",
                    shapes.empty() ? "absent" : shapes[0].ToString(), i, needed[i].shape.ToString(),
                    there.ToString()),
        "feed what the net was built for, or build the net anew");
  }
  fitting_[l] = std::move(shapes);
}

template <typename T>
void Net<T>::TellFollowers(int layer, bool absorb) {
  Followers<T> followers = NoFollowers();
  if (absorb) {
    const Fusion& fusion = *FusionOf(layer);
    if (fusion.norm >= 0) followers.norm = layers_[static_cast<size_t>(fusion.norm)].get();
    if (fusion.scale >= 0) followers.scale = layers_[static_cast<size_t>(fusion.scale)].get();
    followers.relu = fusion.relu >= 0;
  }
  dynamic_cast<Absorbing<T>&>(*layers_[static_cast<size_t>(layer)]).Absorb(followers);
}

template <typename T>
bool Net<T>::IsDoneBefore(int layer, int low, int high) const {
  const int producer = fused_into_[static_cast<size_t>(layer)];
  return Fuses() && producer >= low && FusionOf(producer)->last() <= high;
}

// Anew after each change of the plan or of what memory is shared.
template <typename T>
void Net<T>::FindFusions() {
  for (const auto& layer : layers_) {
    if (auto* absorbing = dynamic_cast<Absorbing<T>*>(layer.get()))
      absorbing->Absorb(NoFollowers());
  }
  fusions_ = fuse_ ? carafe::FindFusions(*this, sharing_) : std::vector<Fusion>();
  fusion_of_.assign(layers_.size(), -1);
  fused_into_.assign(layers_.size(), -1);
  for (size_t f = 0; f < fusions_.size(); ++f) {
    fusion_of_[static_cast<size_t>(fusions_[f].producer)] = static_cast<int>(f);
    for (const int follower : fusions_[f].followers()) {
      if (follower >= 0) fused_into_[static_cast<size_t>(follower)] = fusions_[f].producer;
    }
  }
}

template <typename T>
void Net<T>::SetPlan(const AlgorithmChoices& choices, bool fuse) {
  if (!choices.IsKnown()) {
    throw ConfigError(fmt::format("there is no algorithm \"{}\"", choices.asked),
                      "use one of " + AlgorithmChoices::Names());
  }
  const auto shared = std::make_shared<const AlgorithmChoices>(choices);
  for (const auto& layer : layers_) {
    auto* planned = dynamic_cast<Planned*>(layer.get());
    if (planned == nullptr) continue;
    planned->SetChoices(shared);
    planned->SetScratch(scratch_);
  }
  fuse_ = fuse;
  FindFusions();
  ApplyMemoryPlan();
}

// The gradient of the loss with respect to a loss top is its weight.
template <typename T>
void Net<T>::SeedLoss(RunContext& run, int layer) {
  const size_t l = static_cast<size_t>(layer);
  for (size_t t = 0; t < tops_[l].size(); ++t) {
    const float weight = loss_weights_[l][t];
    if (weight == 0) continue;
    Blob<T>& top = *tops_[l][t];
    Fill(run.stream, top.count(), static_cast<T>(weight), top.mutable_diff(run.stream));
  }
}

template <typename T>
void Net<T>::Backward(RunContext& run, ParamEvents* events) {
  BackwardFromTo(run, static_cast<int>(layers_.size()) - 1, 0, events);
}

template <typename T>
void Net<T>::BackwardFromTo(RunContext& run, int first, int last, ParamEvents* events) {
  if (pool_ != nullptr) BeginBackward(first, last);
  for (int i = first; i >= last; --i) {
    const size_t l = static_cast<size_t>(i);
    Tell(LayerEvents::kBeforeBackward, i);
    if (IsDoneBefore(i, last, first)) {
      Tell(LayerEvents::kAfterBackward, i);
      continue;  // memory and gradients are its producer's until that has run
    }
    const Fusion* fusion = FusionOf(i);
    if (layer_needs_backward_[l]) {
      const TraceSpan span(run.trace, "backward", layers_[l]->name());
      if (fusion != nullptr) {
        TellFollowers(i, Fuses() && fusion->last() <= first &&
                             layer_needs_backward_[static_cast<size_t>(fusion->last())]);
      }
      layers_[l]->Backward(run, tops_[l], propagate_down_[l], bottoms_[l]);
    }
    Tell(LayerEvents::kAfterBackward, i);
    if (pool_ != nullptr) Release(memory_.dead_after_backward[l]);
    if (events == nullptr) continue;
    if (fusion != nullptr) {
      for (const int follower : fusion->followers()) {
        if (follower < 0 || !IsDoneBefore(follower, last, first)) continue;
        for (const int param : params_final_after_[static_cast<size_t>(follower)]) {
          events->GradientFinal(param);
        }
      }
    }
    for (const int param : params_final_after_[l]) events->GradientFinal(param);
  }
}

template <typename T>
void Net<T>::Reshape(RunContext& run) {
  for (size_t l = 0; l < layers_.size(); ++l) ReshapeLayer(run, l);
}

template <typename T>
void Net<T>::ClearParamDiffs(Stream& stream) {
  for (const Param<T>& param : params_) param.blob->ZeroDiff(stream);
}

template <typename T>
Blob<T>* Net<T>::FindBlob(const std::string& name) const {
  const auto found = blob_index_.find(name);
  return found == blob_index_.end() ? nullptr : blobs_[static_cast<size_t>(found->second)].get();
}

template <typename T>
Layer<T>* Net<T>::FindLayerNamed(const std::string& name) const {
  for (const auto& layer : layers_) {
    if (layer->name() == name) return layer.get();
  }
  return nullptr;
}

template class Net<float>;
template class Net<double>;

}  // namespace carafe
