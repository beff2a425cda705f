// The ways to compute a 2-D convolution in float on the CPU whose results lie in nChw8c, and which
// of them to take for a shape. The plain way (im2col and matrix products, or depthwise kernels) is
// the layer's own; here it is a name.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carafe/core/format.h"
#include "carafe/kernels/convolution_shape.h"
#include "carafe/kernels/dnnl_convolution.h"
#include "carafe/kernels/winograd.h"

namespace carafe {

enum class ConvolutionAlgorithm {
  kPlain,
  kDirect,
  kWinograd4x4,     // F(4x4,3x3)
  kWinograd2x2,     // F(2x2,3x3)
  kWinograd5x5,     // F(2x2,5x5)
  kWinograd4x4Of5,  // F(4x4,5x5)
};

// "gemm", "direct", "winograd4x4", "winograd2x2", "winograd5x5", "winograd4x4of5"
std::string_view AlgorithmName(ConvolutionAlgorithm algorithm);
std::optional<ConvolutionAlgorithm> AlgorithmNamed(std::string_view name);
std::string_view DirectionName(ConvolutionDirection direction);  // "forward", "data", "weights"
constexpr ConvolutionDirection kConvolutionDirections[] = {ConvolutionDirection::kForward,
                                                           ConvolutionDirection::kBackwardData,
                                                           ConvolutionDirection::kBackwardWeights};

// "3x3p1 64->128 56x56": the number of images is left out, because no choice may depend on it.
std::string ShapeText(const ConvolutionShape& shape);
// "SHAPE DIRECTION"
std::string ChoiceKey(const ConvolutionShape& shape, ConvolutionDirection direction);

// What may be asked for: auto (by rule), measure (what was measured, else by rule), gemm, direct,
// winograd (auto, but Winograd wherever it can be), winograd2x2 (the same, by the smaller and more
// exact tiles).
struct AlgorithmChoices {
  std::string asked = "auto";
  std::map<std::string, ConvolutionAlgorithm> measured;  // ChoiceKey -> fastest

  // All names that `asked` may have, with commas; and whether this is one.
  static std::string Names();
  bool IsKnown() const;
};

// All algorithms for one shape; used by one thread at a time.
class BlockedConvolution {
 public:
  BlockedConvolution(const ConvolutionShape& shape, int threads);

  const ConvolutionShape& shape() const { return shape_; }
  // Those that can compute the direction; kPlain is not among them.
  std::vector<ConvolutionAlgorithm> Candidates(ConvolutionDirection direction);
  // The one to use, kPlain where there is no other. The same on every machine, for any number of
  // threads and images, unless measured: P workers must choose what one with the global batch does.
  ConvolutionAlgorithm Choose(const AlgorithmChoices& choices, ConvolutionDirection direction);
  Format source_format(ConvolutionAlgorithm algorithm) const;
  size_t ScratchBytes(ConvolutionAlgorithm algorithm, ConvolutionDirection direction);

  // As in DnnlConvolution and WinogradConvolution. dst = max(0, .) if `relu`.
  void Forward(ConvolutionAlgorithm algorithm, Stream& stream, const float* src,
               const float* weights, const float* bias, bool relu, float* dst, void* scratch);
  void BackwardData(ConvolutionAlgorithm algorithm, const float* d_dst, const float* weights,
                    float* d_src, void* scratch);
  void BackwardWeights(ConvolutionAlgorithm algorithm, const float* src, const float* d_dst,
                       float* d_weights, void* scratch);

  // Seconds of one call on arrays of its own, the best of `runs` after one to warm up.
  double Measure(ConvolutionAlgorithm algorithm, ConvolutionDirection direction, Stream& stream,
                 int runs);

 private:
  bool Has(ConvolutionAlgorithm algorithm, ConvolutionDirection direction);
  bool PaysByRule(ConvolutionAlgorithm algorithm) const;
  const WinogradConvolution& Winograd(ConvolutionAlgorithm algorithm);

  const ConvolutionShape shape_;
  const int threads_;
  std::unique_ptr<DnnlConvolution> direct_;  // null: not for this shape
  std::map<ConvolutionAlgorithm, WinogradConvolution> winograd_;
};

}  // namespace carafe
