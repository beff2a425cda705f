#include "carafe/layers/batch_layer.h"

#include <fmt/format.h>

#include <utility>

#include "carafe/base/log.h"
#include "carafe/core/trace_span.h"

namespace carafe {

SettingsLocation LocationOf(const LayerSpec& spec) {
  return {fmt::format("layer \"{}\" ({})", spec.name(), spec.param().type()), spec.place()};
}

void WarnOfOldTransforms(const LayerSpec& spec, const std::string& message) {
  const auto* outer = spec.param().GetDescriptor()->FindFieldByName(message);
  const auto& param = spec.param().GetReflection()->GetMessage(spec.param(), outer);
  for (const char* field : {"scale", "mean_file", "crop_size", "mirror"}) {
    const auto* descriptor = param.GetDescriptor()->FindFieldByName(field);
    if (!param.GetReflection()->HasField(param, descriptor)) continue;
    LogWarning("{}: layer \"{}\": {} has no effect in {}; write it in transform_param",
               spec.place().Find(fmt::format("{}.{}", message, field)).ToString(), spec.name(),
               field, message);
  }
}

template <typename T>
BatchLayer<T>::BatchLayer(const LayerSpec& spec, BatchSettings settings, Open open)
    : Layer<T>(spec), settings_(std::move(settings)), open_(std::move(open)) {
  spec.Check(settings_.batch_size > 0, settings_.batch_path, "batch_size is 0 or missing",
             "give the number of records of one pass, e.g. batch_size: 64");
  spec.Check(settings_.prefetch > 0, "data_param.prefetch", "prefetch is 0",
             "omit it (4 batches are loaded ahead), or give 1 or more");
  CheckOwnTransforms(spec.param().transform_param(), LocationOf(spec));
}

template <typename T>
BatchLoader<T>& BatchLayer<T>::loader() const {
  if (loader_ == nullptr) {
    const LayerSpec& spec = this->spec();
    loader_ = std::make_unique<BatchLoader<T>>(open_(), settings_, spec.param().top_size(),
                                               spec.name(), LocationOf(spec));
  }
  return *loader_;
}

template <typename T>
Shapes BatchLayer<T>::InferShapes(const Shapes& /*bottom*/) const {
  Shapes shapes;
  for (const Shape& row : loader().row_shapes()) {
    shapes.push_back(WithRows(settings_.batch_size, row));
  }
  return shapes;
}

template <typename T>
void BatchLayer<T>::Reshape(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) {
  const int64_t rows = loader().Rows(run.replica);
  for (size_t i = 0; i < top.size(); ++i) {
    top[i]->Reshape(settings_.sizes_may_vary ? Take(run).arrays[i].shape
                                             : WithRows(rows, loader().row_shapes()[i]));
  }
}

template <typename T>
void BatchLayer<T>::Forward(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) {
  const Batch<T>& batch = Take(run);
  taken_ = nullptr;
  for (size_t i = 0; i < top.size(); ++i) top[i]->SetData(run.stream, batch.arrays[i].values);
}

// The batch of this pass, once: Reshape and Forward of the same pass share it.
template <typename T>
const Batch<T>& BatchLayer<T>::Take(RunContext& run) {
  if (taken_ != nullptr && taken_pass_ == run.pass && taken_replica_ == run.replica) {
    return *taken_;
  }
  if (prefetcher_ == nullptr) {
    prefetcher_ = std::make_unique<Prefetcher<T>>(
        settings_.prefetch, [this, &loader = loader(), trace = run.trace](
                                const Pass& pass, const Replica& replica, Batch<T>* batch) {
          const TraceSpan span(trace, "load", this->name());
          loader.Load(pass, replica, batch);
        });
  }
  taken_ = nullptr;  // stays so if Take throws
  const TraceSpan wait(run.trace, "data", "wait");
  taken_ = &prefetcher_->Take(run.pass, run.replica);
  taken_pass_ = run.pass;
  taken_replica_ = run.replica;
  return *taken_;
}

template class BatchLayer<float>;
template class BatchLayer<double>;

}  // namespace carafe
