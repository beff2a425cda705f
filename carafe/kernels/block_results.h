// Doubles that the blocks of a reduction leave for the host to put together. They lie in memory
// that the calling thread keeps for each device, so that a training step takes none.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "carafe/core/blob.h"

namespace carafe {

// One at a time per thread. On a GPU the next one may use another stream: OnHost has waited for
// this one's.
class BlockResults {
 public:
  BlockResults(Stream& stream, int64_t count) : count_(static_cast<size_t>(count)) {
    if (stream.on_cpu()) {
      thread_local std::vector<double> kept;
      if (kept.size() < count_) kept.resize(count_);
      values_ = kept.data();
    } else {
      thread_local std::map<Device*, Blob<double>> kept;
      blob_ = &kept[&stream.device()];
      blob_->Reshape({count});
      values_ = blob_->mutable_data(stream);
    }
  }
  double* data() const { return values_; }  // on the stream's device
  // After the kernel that wrote them.
  std::span<const double> OnHost(Stream& stream) {
    if (stream.on_cpu()) return {values_, count_};
    host_ = blob_->DataToHost(stream);
    return host_;
  }

 private:
  const size_t count_;
  double* values_ = nullptr;
  Blob<double>* blob_ = nullptr;  // on other devices
  std::vector<double> host_;
};

}  // namespace carafe
