#include "carafe/net/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/core/trace_span.h"
#include "carafe/kernels/math.h"

namespace carafe {

template <typename T>
void ParamEvents<T>::FactorsReady(int, const Factors<T>&) {
  throw InternalError("factors were requested, but nobody takes them");
}

namespace {

// While it lives a layer computes its gradients, though factors are requested.
template <typename T>
class WithoutFactors {
 public:
  WithoutFactors(const BackwardStep<T>& step, bool active) : step_(step), active_(active) {
    if (active_) Set(false);
  }
  ~WithoutFactors() {
    if (active_) Set(true);
  }
  WithoutFactors(const WithoutFactors&) = delete;
  WithoutFactors& operator=(const WithoutFactors&) = delete;

 private:
  void Set(bool gives) {
    for (const auto& [blob, param] : step_.factors) step_.layer->set_gives_factors(blob, gives);
  }
  const BackwardStep<T>& step_;
  const bool active_;
};

}  // namespace

template <typename T>
double Runner<T>::Forward(RunContext& run, int first, int last, ParamEvents<T>* events) {
  double loss = 0;
  Steps own;
  memory_.BeginForward(run, first);
  for (const ForwardStep<T>& step : StepsFor(first, last, &own).forward) {
    const TraceSpan span(run.trace, "forward", step.layer->name());
    Report(LayerEvents::kBeforeForward, step.id);
    ReshapeLayer(run, step);
    step.layer->Fuse(step.followers);
    if (events != nullptr) {
      for (const int param : step.reads) events->BeforeRead(param);
    }
    step.layer->Forward(run, step.bottoms, step.tops);
    AddLosses(run, step, &loss);
    Report(LayerEvents::kAfterForward, step.id);
    memory_.Release(step.dead);
  }
  return loss;
}

template <typename T>
void Runner<T>::Backward(RunContext& run, int first, int last, ParamEvents<T>* events) {
  Steps own;
  memory_.BeginBackward(first, last);
  for (const BackwardStep<T>& step : StepsFor(last, first, &own).backward) {
    Report(LayerEvents::kBeforeBackward, step.id);
    if (step.needed) {
      const TraceSpan span(run.trace, "backward", step.layer->name());
      const WithoutFactors<T> nobody_listens(step, events == nullptr);
      step.layer->Fuse(step.followers);
      step.layer->Backward(run, step.tops, *step.propagate_down, step.bottoms);
    }
    Report(LayerEvents::kAfterBackward, step.id);
    for (const auto& [blob, param] : step.factors) {
      if (events == nullptr) break;
      events->FactorsReady(param,
                           step.layer->GradientFactors(blob, run.stream, step.tops, step.bottoms));
    }
    memory_.Release(step.dead);
    if (events == nullptr) continue;
    for (const int param : step.final_params) events->GradientFinal(param);
  }
}

template <typename T>
void Runner<T>::ForwardAgain(RunContext& run, int end, const std::vector<bool>& skip,
                             const std::function<void(int layer)>& after) {
  memory_.BeginForward(run, 0);
  memory_.ForbidBackward();
  for (int l = 0; l < end; ++l) {
    const ForwardStep<T>& step = At(single_.forward, l);
    if (!At(skip, l)) {
      ReshapeLayer(run, step);
      step.layer->Fuse({});
      step.layer->Forward(run, step.bottoms, step.tops);
    }
    after(l);
    memory_.Release(step.dead);
  }
}

// The gradient of the loss with respect to a loss top is its weight.
template <typename T>
void Runner<T>::AddLosses(RunContext& run, const ForwardStep<T>& step, double* loss) {
  for (const auto& [top, weight] : step.losses) {
    *loss += weight * Sum(run.stream, top->count(), top->data(run.stream));
    Fill(run.stream, top->count(), static_cast<T>(weight), top->mutable_diff(run.stream));
  }
}

template <typename T>
void Runner<T>::Reshape(RunContext& run) {
  for (const ForwardStep<T>& step : single_.forward) ReshapeLayer(run, step);
}

template <typename T>
void Runner<T>::ReshapeLayer(RunContext& run, const ForwardStep<T>& step) {
  step.layer->Reshape(run, step.bottoms, step.tops);
  if (!step.layer->blobs().empty()) CheckParams(*step.layer, step.bottoms, &At(fitting_, step.id));
}

// Parameters have their shapes since the net was built: a bottom that has changed so that others
// would be needed (more channels) is refused before any kernel reads beyond their end.
template <typename T>
void Runner<T>::CheckParams(Layer<T>& layer, Blobs<T> bottoms, Shapes* fitting) {
  const auto same = [](const Blob<T>* bottom, const Shape& shape) {
    return bottom->shape() == shape;
  };
  if (std::ranges::equal(bottoms, *fitting, same)) return;
  Shapes shapes;
  for (const Blob<T>* bottom : bottoms) shapes.push_back(bottom->shape());
  const std::vector<ParamDef> needed = layer.DeclareParams(shapes);
  for (int i = 0; i < std::min(Count(needed), Count(layer.blobs())); ++i) {
    const Shape& there = layer.blob(i).shape();
    layer.spec().Check(
        At(needed, i).shape.Count() == there.Count(), "",
        fmt::format("its bottom is {} now, which needs a parameter {} of shape {}; it has {}",
                    shapes.empty() ? "absent" : shapes[0].ToString(), i,
                    At(needed, i).shape.ToString(), there.ToString()),
        "feed what the net was built for, or build the net again");
  }
  *fitting = std::move(shapes);
}

template class Runner<float>;
template class Runner<double>;
template class ParamEvents<float>;
template class ParamEvents<double>;

}  // namespace carafe
