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
  for (int i = first; i <= last; ++i) {
    const size_t l = static_cast<size_t>(i);
    Layer<T>& layer = *layers_[l];
    if (Fuses() && producer_of_relu_[l] >= first) continue;  // done with its producer
    const TraceSpan span(run.trace, "forward", layer.name());
    Tell(LayerEvents::kBeforeForward, i);
    ReshapeLayer(run, l);
    if (relu_of_[l] >= 0) AbsorbRelu(i, Fuses() && relu_of_[l] <= last);
    if (events != nullptr) {
      for (const int param : owner_of_[l]) events->BeforeRead(param);
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
void Net<T>::AbsorbRelu(int layer, bool absorb) {
  dynamic_cast<Planned&>(*layers_[static_cast<size_t>(layer)]).AbsorbRelu(absorb);
}

template <typename T>
void Net<T>::SetPlan(const AlgorithmChoices& choices, bool fuse) {
  if (!choices.IsKnown()) {
    throw ConfigError(fmt::format("there is no algorithm \"{}\"", choices.asked),
                      "use one of " + AlgorithmChoices::Names());
  }
  const auto shared = std::make_shared<const AlgorithmChoices>(choices);
  const auto scratch = std::make_shared<Buffer>();
  for (const auto& layer : layers_) {
    auto* planned = dynamic_cast<Planned*>(layer.get());
    if (planned == nullptr) continue;
    planned->SetChoices(shared);
    planned->SetScratch(scratch);
    planned->AbsorbRelu(false);
  }
  relu_of_.assign(layers_.size(), -1);
  producer_of_relu_.assign(layers_.size(), -1);
  if (!fuse) return;
  for (const Fusion& fusion : FindFusions(*this)) {
    relu_of_[static_cast<size_t>(fusion.producer)] = fusion.relu;
    producer_of_relu_[static_cast<size_t>(fusion.relu)] = fusion.producer;
  }
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
  for (int i = first; i >= last; --i) {
    const size_t l = static_cast<size_t>(i);
    Tell(LayerEvents::kBeforeBackward, i);
    // A ReLU leaves its work to its producer, if that comes in this call and gets a gradient at
    // all.
    if (layer_needs_backward_[l] && !(Fuses() && producer_of_relu_[l] >= last)) {
      const TraceSpan span(run.trace, "backward", layers_[l]->name());
      if (relu_of_[l] >= 0)
        AbsorbRelu(i, Fuses() && relu_of_[l] <= first &&
                          layer_needs_backward_[static_cast<size_t>(relu_of_[l])]);
      layers_[l]->Backward(run, tops_[l], propagate_down_[l], bottoms_[l]);
    }
    Tell(LayerEvents::kAfterBackward, i);
    if (events == nullptr) continue;
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
