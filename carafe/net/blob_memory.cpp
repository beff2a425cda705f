#include "carafe/net/blob_memory.h"

#include <fmt/format.h>

#include <utility>

#include "carafe/base/error.h"

namespace carafe {

template <typename T>
void BlobMemory<T>::Share(MemorySharing sharing, std::shared_ptr<MemoryPool> pool,
                          std::set<int> keep) {
  sharing_ = sharing;
  pool_ = sharing == MemorySharing::kNone ? nullptr : std::move(pool);
  keep_ = std::move(keep);
}

template <typename T>
void BlobMemory<T>::Apply(const Parameters<T>& params) {
  for (const BlobHalf half : plan_.pooled) SetPool(half, nullptr);
  plan_ = {};
  scratch_->UsePool(pool_);
  for (const auto& layer : graph_.layers) {
    layer->KeepForBackward(sharing_ != MemorySharing::kForward);
  }
  if (sharing_ == MemorySharing::kNone) return;
  plan_ = PlanMemory(graph_, params, sharing_, keep_);
  for (const BlobHalf half : plan_.pooled) SetPool(half, pool_);
}

template <typename T>
void BlobMemory<T>::SetPool(BlobHalf half, const std::shared_ptr<MemoryPool>& pool) {
  Blob<T>& blob = *At(graph_.blobs, half.blob);
  if (half.diff) {
    blob.PoolDiff(pool);
  } else {
    blob.PoolData(pool);
  }
}

template <typename T>
void BlobMemory<T>::Release(const std::vector<BlobHalf>& halves) {
  scratch_->Release();
  for (const BlobHalf half : halves) {
    Blob<T>& blob = *At(graph_.blobs, half.blob);
    if (half.diff) {
      blob.ReleaseDiff();
    } else {
      blob.ReleaseData();
    }
  }
}

template <typename T>
void BlobMemory<T>::BeginForward(RunContext& run, int first) {
  if (pool_ == nullptr) return;
  if (first > 0) {
    throw ConfigError(
        fmt::format("a pass was to start at layer {} of net \"{}\", whose blobs share memory",
                    first, graph_.name),
        "run it from the first layer, or let it share no memory");
  }
  Release(plan_.pooled);
  pool_->Reserve(run.stream, plan_.pool_bytes);
  forward_done_ = sharing_ == MemorySharing::kTraining;
}

template <typename T>
void BlobMemory<T>::BeginBackward(int first, int last) {
  if (pool_ == nullptr) return;
  if (!forward_done_ || first + 1 < graph_.size() || last > 0) {
    throw ConfigError(fmt::format("net \"{}\" shares memory, so that Backward runs once and as a "
                                  "whole",
                                  graph_.name),
                      "run Forward before every Backward, or let the net share no memory");
  }
  forward_done_ = false;
}

template class BlobMemory<float>;
template class BlobMemory<double>;

}  // namespace carafe
