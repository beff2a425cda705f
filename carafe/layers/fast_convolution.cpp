#include "carafe/layers/fast_convolution.h"

#include <fmt/format.h>

#include "carafe/kernels/blocked_bias.h"

namespace carafe {
namespace {

using enum ConvolutionDirection;
constexpr ConvolutionAlgorithm kPlain = ConvolutionAlgorithm::kPlain;

std::string FormatsText(ConvolutionDirection direction, Format source) {
  const char *src = FormatName(source), *dst = FormatName(Format::kBlocked8);
  if (direction == kForward) return fmt::format("{} -> {}", src, dst);
  if (direction == kBackwardData) return fmt::format("{} -> {}", dst, src);
  return fmt::format("{}, {} -> plain", src, dst);
}

}  // namespace

void FastConvolution::SetChoices(std::shared_ptr<const AlgorithmChoices> choices) {
  choices_ = std::move(choices);
  convolution_.reset();
}

void FastConvolution::Configure(const Stream& stream, const ConvolutionShape& shape) {
  if (convolution_ != nullptr && convolution_->shape() == shape && threads_ == stream.threads()) {
    return;
  }
  threads_ = stream.threads();
  convolution_ = std::make_unique<BlockedConvolution>(shape, threads_);
  for (const ConvolutionDirection direction : kConvolutionDirections) {
    chosen_[static_cast<size_t>(direction)] = convolution_->Choose(*choices_, direction);
  }
}

void* FastConvolution::Scratch(Stream& stream, ConvolutionDirection direction) {
  return scratch_->Get(stream, convolution_->ScratchBytes(Choice(direction), direction),
                       /*zero=*/false);
}

bool FastConvolution::Forward(Stream& stream, const Blob<float>& bottom, const float* weights,
                              const float* bias, bool relu, Blob<float>& top) {
  const ConvolutionAlgorithm algorithm = Choice(kForward);
  if (algorithm == kPlain) return false;
  const float* x = bottom.data(stream, convolution_->source_format(algorithm));
  float* y = top.overwrite_data(stream, Format::kBlocked8);
  convolution_->Forward(algorithm, stream, x, weights, bias, relu, y, Scratch(stream, kForward));
  return true;
}

bool FastConvolution::BackwardReluBias(Stream& stream, bool relu, float* d_bias, Blob<float>& top) {
  if (Choice(kBackwardData) == kPlain && Choice(kBackwardWeights) == kPlain) return false;
  if (!relu && d_bias == nullptr) return true;
  const float* y = relu ? top.data(stream, Format::kBlocked8) : nullptr;
  BlockedReluBiasBackward(stream, top.blocked_geometry(), y,
                          top.mutable_diff(stream, Format::kBlocked8), d_bias);
  return true;
}

bool FastConvolution::BackwardWeights(Stream& stream, const Blob<float>& bottom,
                                      const Blob<float>& top, float* d_weights) {
  const ConvolutionAlgorithm algorithm = Choice(kBackwardWeights);
  if (algorithm == kPlain) return false;
  const float* x = bottom.data(stream, convolution_->source_format(algorithm));
  const float* dy = top.diff(stream, Format::kBlocked8);
  convolution_->BackwardWeights(algorithm, x, dy, d_weights, Scratch(stream, kBackwardWeights));
  return true;
}

bool FastConvolution::BackwardData(Stream& stream, const Blob<float>& top, const float* weights,
                                   Blob<float>& bottom) {
  const ConvolutionAlgorithm algorithm = Choice(kBackwardData);
  if (algorithm == kPlain) return false;
  const float* dy = top.diff(stream, Format::kBlocked8);
  float* dx = bottom.overwrite_diff(stream, convolution_->source_format(algorithm));
  convolution_->BackwardData(algorithm, dy, weights, dx, Scratch(stream, kBackwardData));
  return true;
}

std::vector<PlannedWay> FastConvolution::Ways(Stream& stream, int runs) {
  std::vector<PlannedWay> ways;
  for (const ConvolutionDirection direction : kConvolutionDirections) {
    for (const ConvolutionAlgorithm algorithm : convolution_->Candidates(direction)) {
      const double seconds =
          runs > 0 ? convolution_->Measure(algorithm, direction, stream, runs) : 0;
      ways.push_back({.direction = std::string(DirectionName(direction)),
                      .algorithm = std::string(AlgorithmName(algorithm)),
                      .formats = FormatsText(direction, convolution_->source_format(algorithm)),
                      .chosen = algorithm == Choice(direction),
                      .scratch_bytes = convolution_->ScratchBytes(algorithm, direction),
                      .seconds = seconds});
    }
    if (Choice(direction) == kPlain) {
      ways.push_back({.direction = std::string(DirectionName(direction)),
                      .algorithm = std::string(AlgorithmName(kPlain)),
                      .formats = "plain",
                      .chosen = true});
    }
  }
  return ways;
}

void FastConvolution::Measure(Stream& stream, int runs,
                              std::map<std::string, ConvolutionAlgorithm>* fastest) {
  for (const ConvolutionDirection direction : kConvolutionDirections) {
    const std::string key = ChoiceKey(convolution_->shape(), direction);
    if (fastest->contains(key)) continue;
    double best = 0;
    for (const ConvolutionAlgorithm algorithm : convolution_->Candidates(direction)) {
      const double seconds = convolution_->Measure(algorithm, direction, stream, runs);
      if (best != 0 && seconds >= best) continue;
      best = seconds;
      (*fastest)[key] = algorithm;
    }
  }
}

}  // namespace carafe
