// Convolution of float blobs on the CPU by the algorithms that work in nChw8c.
#pragma once

#include <memory>
#include <vector>

#include "carafe/core/blob.h"
#include "carafe/layers/planned.h"

namespace carafe {

// Each direction says whether it was done; if not, the caller takes the plain way. Holds what was
// prepared for the last shape; used by one thread at a time.
class FastConvolution {
 public:
  void SetChoices(std::shared_ptr<const AlgorithmChoices> choices);
  void SetScratch(std::shared_ptr<Buffer> scratch) { scratch_ = std::move(scratch); }
  // Before the calls below; cheap if the shape is that of the last time.
  void Configure(const Stream& stream, const ConvolutionShape& shape);

  // top = bottom * weights + bias (may be null), then max(0, .) if `relu`.
  bool Forward(Stream& stream, const Blob<float>& bottom, const float* weights, const float* bias,
               bool relu, Blob<float>& top);
  // Masks the top's diff by ReLU, if `relu`, and adds its sums to d_bias, if that is not null.
  bool BackwardReluBias(Stream& stream, bool relu, float* d_bias, Blob<float>& top);
  bool BackwardWeights(Stream& stream, const Blob<float>& bottom, const Blob<float>& top,
                       float* d_weights);
  bool BackwardData(Stream& stream, const Blob<float>& top, const float* weights,
                    Blob<float>& bottom);
  std::vector<PlannedWay> Ways(Stream& stream, int runs);
  void Measure(Stream& stream, int runs, std::map<std::string, ConvolutionAlgorithm>* fastest);

 private:
  ConvolutionAlgorithm Choice(ConvolutionDirection direction) const {
    return chosen_[static_cast<size_t>(direction)];
  }
  void* Scratch(Stream& stream, ConvolutionDirection direction);

  std::shared_ptr<const AlgorithmChoices> choices_ = std::make_shared<AlgorithmChoices>();
  std::shared_ptr<Buffer> scratch_ = std::make_shared<Buffer>();
  std::unique_ptr<BlockedConvolution> convolution_;
  int threads_ = 0;
  ConvolutionAlgorithm chosen_[3] = {};
};

}  // namespace carafe
