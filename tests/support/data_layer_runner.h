// A data layer with its tops, run as a net would run it.
#pragma once

#include <string>
#include <vector>

#include "carafe/layers/layer.h"

namespace carafe {

template <typename T>
class DataLayerRunner {
 public:
  // `text` is the layer in prototxt; it is called net.prototxt in errors.
  explicit DataLayerRunner(const std::string& text, Phase phase = TRAIN) {
    LayerParameter param;
    const Place place = ParseText(text, "net.prototxt", &param);
    layer_ = MakeLayer<T>(LayerSpec(param, phase, place));
    blobs_ = std::vector<Blob<T>>(static_cast<size_t>(param.top_size()));
    for (Blob<T>& blob : blobs_) tops_.push_back(&blob);
  }

  DataLayerRunner& Forward(int64_t pass, const Replica& replica = {}, uint64_t seed = 11) {
    RunContext run{.stream = stream_, .pass = {.seed = seed, .index = pass}, .replica = replica};
    layer_->Reshape(run, {}, tops_);
    layer_->Forward(run, {}, tops_);
    return *this;
  }
  Layer<T>& layer() { return *layer_; }
  const Shape& shape() const { return blobs_[0].shape(); }
  std::vector<T> data() { return blobs_[0].DataToHost(stream_); }
  std::vector<T> labels() { return blobs_[1].DataToHost(stream_); }

 private:
  Stream stream_;
  std::unique_ptr<Layer<T>> layer_;
  std::vector<Blob<T>> blobs_;
  std::vector<Blob<T>*> tops_;
};

}  // namespace carafe
