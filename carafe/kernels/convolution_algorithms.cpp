#include "carafe/kernels/convolution_algorithms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "carafe/base/error.h"
#include "carafe/base/timer.h"
#include "carafe/core/blob.h"
#include "carafe/kernels/blocked_bias.h"
#include "carafe/kernels/cpu_few_channels.h"

namespace carafe {
namespace {

using enum ConvolutionAlgorithm;
using enum ConvolutionDirection;

// Whether the gradient of the weights is our own (cpu_few_channels.h) and not oneDNN's.
bool OwnWeights(const ConvolutionShape& shape, const DnnlConvolution* direct) {
  return FewChannelsSupports(shape) &&
         (direct == nullptr || direct->source_format() == Format::kPlain);
}

// The faster first.
constexpr std::array kWinograds = {kWinograd4x4, kWinograd4x4Of5, kWinograd2x2, kWinograd5x5};

// Fewer multiplications, larger errors, than tiles of 2x2.
bool HasLargeTiles(ConvolutionAlgorithm algorithm) {
  return algorithm == kWinograd4x4 || algorithm == kWinograd4x4Of5;
}

WinogradTile TileOf(ConvolutionAlgorithm algorithm) {
  switch (algorithm) {
    case kWinograd2x2:
      return WinogradTile::kF2x2_3x3;
    case kWinograd5x5:
      return WinogradTile::kF2x2_5x5;
    case kWinograd4x4Of5:
      return WinogradTile::kF4x4_5x5;
    default:
      return WinogradTile::kF4x4_3x3;
  }
}

// In the order of the enum.
constexpr std::array<std::string_view, 6> kNames = {"gemm",        "direct",      "winograd4x4",
                                                    "winograd2x2", "winograd5x5", "winograd4x4of5"};
constexpr std::array<std::string_view, 6> kAsked = {"auto",   "measure",  "gemm",
                                                    "direct", "winograd", "winograd2x2"};

}  // namespace

std::string_view AlgorithmName(ConvolutionAlgorithm algorithm) {
  return kNames[static_cast<size_t>(algorithm)];
}

std::optional<ConvolutionAlgorithm> AlgorithmNamed(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ConvolutionAlgorithm>(found - kNames.begin());
}

std::string_view DirectionName(ConvolutionDirection direction) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "data", "weights"};
  return kNames[static_cast<size_t>(direction)];
}

std::string ShapeText(const ConvolutionShape& s) {
  std::string text = fmt::format("{}x{}", s.kernel_h, s.kernel_w);
  const auto pair = [&](char name, int64_t h, int64_t w, int64_t usual) {
    if (h == usual && w == usual) return;
    text += h == w ? fmt::format("{}{}", name, h) : fmt::format("{}{}x{}", name, h, w);
  };
  pair('s', s.stride_h, s.stride_w, 1);
  pair('p', s.pad_h, s.pad_w, 0);
  pair('d', s.dilation_h, s.dilation_w, 1);
  text += fmt::format(" {}->{}", s.in_channels, s.out_channels);
  if (s.groups > 1) text += fmt::format(" g{}", s.groups);
  return text + fmt::format(" {}x{}", s.in_h, s.in_w);
}

std::string ChoiceKey(const ConvolutionShape& shape, ConvolutionDirection direction) {
  return fmt::format("{} {}", ShapeText(shape), DirectionName(direction));
}

std::string AlgorithmChoices::Names() { return fmt::format("{}", fmt::join(kAsked, ", ")); }

bool AlgorithmChoices::IsKnown() const { return std::ranges::find(kAsked, asked) != kAsked.end(); }

BlockedConvolution::BlockedConvolution(const ConvolutionShape& shape, int threads)
    : shape_(shape), threads_(threads), direct_(DnnlConvolution::Make(shape, threads)) {}

bool BlockedConvolution::Has(ConvolutionAlgorithm algorithm, ConvolutionDirection direction) {
  if (algorithm == kPlain || shape_.images == 0) return false;
  if (algorithm == kDirect) {
    return (direction == kBackwardWeights && OwnWeights(shape_, direct_.get())) ||
           (direct_ != nullptr && direct_->Has(direction));
  }
  return WinogradConvolution::Supports(shape_, TileOf(algorithm));
}

std::vector<ConvolutionAlgorithm> BlockedConvolution::Candidates(ConvolutionDirection direction) {
  std::vector<ConvolutionAlgorithm> found;
  for (const ConvolutionAlgorithm algorithm : kWinograds) {
    if (Has(algorithm, direction)) found.push_back(algorithm);
  }
  if (Has(kDirect, direction)) found.push_back(kDirect);
  return found;
}

// Winograd's transforms cost per channel, what they save is per pair of channels; and tiles that
// hang over the border compute for nothing.
bool BlockedConvolution::PaysByRule(ConvolutionAlgorithm algorithm) const {
  const bool wide = shape_.group_in_channels() >= 16 && shape_.group_out_channels() >= 16;
  const bool large = std::min(shape_.out_h, shape_.out_w) >= 4;
  return wide && large && HasLargeTiles(algorithm);
}

ConvolutionAlgorithm BlockedConvolution::Choose(const AlgorithmChoices& choices,
                                                ConvolutionDirection direction) {
  if (choices.asked == "gemm") return kPlain;
  const auto measured = choices.measured.find(ChoiceKey(shape_, direction));
  if (measured != choices.measured.end() && Has(measured->second, direction)) {
    return measured->second;
  }
  for (const ConvolutionAlgorithm algorithm : kWinograds) {
    if (choices.asked == "direct" || !Has(algorithm, direction)) continue;
    const bool instead = choices.asked == "winograd2x2" && HasLargeTiles(algorithm);
    const bool forced = choices.asked == "winograd" || choices.asked == "winograd2x2";
    if (!instead && (forced || PaysByRule(algorithm))) return algorithm;
  }
  return Has(kDirect, direction) ? kDirect : kPlain;
}

Format BlockedConvolution::source_format(ConvolutionAlgorithm algorithm) const {
  if (algorithm != kDirect) return Format::kBlocked8;
  return direct_ == nullptr ? Format::kPlain : direct_->source_format();
}

const WinogradConvolution& BlockedConvolution::Winograd(ConvolutionAlgorithm algorithm) {
  const auto made = winograd_.find(algorithm);
  if (made != winograd_.end()) return made->second;
  return winograd_.emplace(algorithm, WinogradConvolution(shape_, TileOf(algorithm))).first->second;
}

size_t BlockedConvolution::ScratchBytes(ConvolutionAlgorithm algorithm,
                                        ConvolutionDirection direction) {
  if (algorithm == kDirect && direction == kBackwardWeights && OwnWeights(shape_, direct_.get())) {
    return FewChannelsScratchBytes(shape_, threads_);
  }
  if (algorithm == kDirect) return direct_->ScratchBytes(direction);
  return Winograd(algorithm).ScratchBytes(threads_);
}

void BlockedConvolution::Forward(ConvolutionAlgorithm algorithm, Stream& stream, const float* src,
                                 const float* weights, const float* bias, bool relu, float* dst,
                                 void* scratch) {
  if (algorithm != kDirect) {
    Winograd(algorithm).Forward(threads_, src, weights, bias, relu, dst, scratch);
    return;
  }
  direct_->Forward(src, weights, bias, dst, scratch);
  const BlockedGeometry g = {shape_.images, shape_.out_channels, shape_.out_h * shape_.out_w};
  if (relu) BlockedRelu(stream, g, dst);
}

void BlockedConvolution::BackwardData(ConvolutionAlgorithm algorithm, const float* d_dst,
                                      const float* weights, float* d_src, void* scratch) {
  if (algorithm == kDirect) {
    direct_->BackwardData(d_dst, weights, d_src, scratch);
  } else {
    Winograd(algorithm).BackwardData(threads_, d_dst, weights, d_src, scratch);
  }
}

void BlockedConvolution::BackwardWeights(ConvolutionAlgorithm algorithm, const float* src,
                                         const float* d_dst, float* d_weights, void* scratch) {
  if (algorithm != kDirect) {
    Winograd(algorithm).BackwardWeights(threads_, src, d_dst, d_weights, scratch);
  } else if (OwnWeights(shape_, direct_.get())) {
    FewChannelsBackwardWeights(threads_, shape_, src, d_dst, d_weights, scratch);
  } else {
    direct_->BackwardWeights(src, d_dst, d_weights, scratch);
  }
}

double BlockedConvolution::Measure(ConvolutionAlgorithm algorithm, ConvolutionDirection direction,
                                   Stream& stream, int runs) {
  Ensure(Has(algorithm, direction), "an algorithm was to be timed that cannot do the shape");
  const ConvolutionShape& s = shape_;
  Blob<float> src({s.images, s.in_channels, s.in_h, s.in_w});
  Blob<float> dst({s.images, s.out_channels, s.out_h, s.out_w});
  Blob<float> weights({s.weight_count()}), bias({s.out_channels});
  Buffer scratch;
  void* room = scratch.Get(stream, ScratchBytes(algorithm, direction));
  float* x = src.overwrite_data(stream, source_format(algorithm));
  float* y = dst.overwrite_data(stream, Format::kBlocked8);
  float* w = weights.overwrite_data(stream);
  double best = 0;
  for (int run = 0; run <= runs; ++run) {
    const Timer timer;
    if (direction == kForward) {
      Forward(algorithm, stream, x, w, bias.data(stream), false, y, room);
    } else if (direction == kBackwardData) {
      BackwardData(algorithm, y, w, x, room);
    } else {
      BackwardWeights(algorithm, x, y, w, room);
    }
    const double seconds = timer.Seconds();
    if (run == 1 || (run > 1 && seconds < best)) best = seconds;
  }
  return best;
}

}  // namespace carafe
