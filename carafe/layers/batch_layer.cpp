#include "carafe/layers/batch_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/log.h"
#include "carafe/core/trace_span.h"
#include "carafe/layers/wait_scope.h"

namespace carafe {
namespace {

Shape WithRows(int64_t rows, const Shape& item) { return {rows, item[0], item[1], item[2]}; }

}  // namespace

SettingsOwner OwnerOf(const LayerSpec& spec) {
  return {fmt::format("layer \"{}\" ({})", spec.name(), spec.param().type()), spec.place()};
}

template <typename T>
void ResizeBatch(const LayerSpec& spec, const std::string& path, const Shape& shape,
                 Batch<T>* batch) {
  try {
    batch->shape = shape;
    batch->data.resize(static_cast<size_t>(shape.Count()));
    batch->labels.resize(static_cast<size_t>(shape[0]));
  } catch (const std::exception&) {  // bad_alloc, length_error
    spec.Fail(path, fmt::format("there is no memory for a batch of {}", shape.ToString()),
              "use a smaller batch_size");
  }
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
             "leave it out (4 batches are made ahead), or give 1 or more");
}

template <typename T>
Shapes BatchLayer<T>::InferShapes(const Shapes& /*bottom*/) const {
  return TopShapes(WithRows(settings_.batch_size, maker().item()));
}

template <typename T>
void BatchLayer<T>::Reshape(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) {
  const int64_t rows = Rows(run.replica);
  const Shape shape = maker().sizes_may_vary() ? Take(run).shape : WithRows(rows, maker().item());
  const Shapes shapes = TopShapes(shape);
  for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(shapes[i]);
}

template <typename T>
void BatchLayer<T>::Forward(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) {
  const Batch<T>& batch = Take(run);
  taken_ = nullptr;
  top[0]->SetData(run.stream, batch.data);
  if (top.size() > 1) top[1]->SetData(run.stream, batch.labels);
}

template <typename T>
const BatchMaker<T>& BatchLayer<T>::maker() const {
  if (maker_ == nullptr) maker_ = open_();
  return *maker_;
}

template <typename T>
Shapes BatchLayer<T>::TopShapes(const Shape& data) const {
  Shapes shapes = {data};
  if (this->spec().param().top_size() > 1) shapes.push_back(Shape{data[0]});
  return shapes;
}

template <typename T>
int64_t BatchLayer<T>::Rows(const Replica& replica) const {
  const Dealer dealer{.batch = settings_.batch_size, .deal = settings_.deal};
  const int64_t rows = dealer.Rows(replica);
  this->spec().Check(rows > 0, settings_.batch_path,
                     fmt::format("a global batch of {} leaves nothing for worker {} of {}",
                                 replica.global_batch, replica.index, replica.count),
                     "use a larger global batch or fewer workers");
  return rows;
}

// The batch of this pass, once: Reshape and Forward of the same pass share it.
template <typename T>
const Batch<T>& BatchLayer<T>::Take(RunContext& run) {
  if (taken_ != nullptr && taken_pass_ == run.pass && taken_replica_ == run.replica) {
    return *taken_;
  }
  if (prefetcher_ == nullptr) {
    maker();
    prefetcher_ = std::make_unique<Prefetcher<T>>(
        static_cast<int>(std::min<uint32_t>(settings_.prefetch, INT32_MAX)),
        [this, trace = run.trace](const Pass& pass, const Replica& replica, Batch<T>* batch) {
          const TraceSpan span(trace, "load", this->name());
          maker_->Make(pass, replica, Rows(replica), batch);
        });
  }
  taken_ = nullptr;  // stays so if Take throws
  const WaitScope wait(run.trace);
  taken_ = &prefetcher_->Take(run.pass, run.replica);
  taken_pass_ = run.pass;
  taken_replica_ = run.replica;
  return *taken_;
}

template void ResizeBatch(const LayerSpec&, const std::string&, const Shape&, Batch<float>*);
template void ResizeBatch(const LayerSpec&, const std::string&, const Shape&, Batch<double>*);
template class BatchLayer<float>;
template class BatchLayer<double>;

}  // namespace carafe
