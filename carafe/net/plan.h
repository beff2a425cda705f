// How a net is run: which algorithm each layer takes, what is fused, and what scratch they share.
#pragma once

#include <string>
#include <vector>

#include "carafe/kernels/convolution_algorithms.h"
#include "carafe/net/net.h"

namespace carafe {

// Layer `relu` works in place on what layer `producer` has just written, and nobody sees the blob
// between the two: the producer can do both.
struct Fusion {
  int producer, relu;
};
template <typename T>
std::vector<Fusion> FindFusions(const Net<T>& net);

// The fastest algorithm of each convolution and direction of the net: the best of `runs` runs.
// Blobs must have their shapes; their contents are left alone.
std::map<std::string, ConvolutionAlgorithm> MeasureAlgorithms(Stream& stream, const Net<float>& net,
                                                              int runs);
// One line per choice ("SHAPE DIRECTION=ALGORITHM"), for other ranks; and back. Throws ConfigError
// for what it does not know.
std::string ChoicesToText(const std::map<std::string, ConvolutionAlgorithm>& choices);
std::map<std::string, ConvolutionAlgorithm> ChoicesFromText(const std::string& text);

// Per layer: algorithm, formats, scratch, fusions, and the alternatives with their times (the best
// of `runs`, none if 0) and why they lost.
std::string ExplainPlan(Stream& stream, const Net<float>& net, int runs);

}  // namespace carafe
