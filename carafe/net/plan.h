// How a net is run: which algorithm each layer takes, what is fused, and what scratch they share.
#pragma once

#include <string>
#include <vector>

#include "carafe/kernels/convolution_algorithms.h"
#include "carafe/net/net.h"

namespace carafe {

// The fastest algorithm of each convolution and direction of the net, the best of `runs` runs,
// added to those that are known. Blobs must have their shapes; their contents are left alone.
std::map<std::string, ConvolutionAlgorithm> MeasureAlgorithms(
    Stream& stream, const Net<float>& net, int runs,
    std::map<std::string, ConvolutionAlgorithm> known = {});
// One line per choice ("SHAPE DIRECTION=ALGORITHM"), for other ranks; and back. Throws ConfigError
// for what it does not know.
std::string ChoicesToText(const std::map<std::string, ConvolutionAlgorithm>& choices);
std::map<std::string, ConvolutionAlgorithm> ChoicesFromText(const std::string& text);

// Per layer: algorithm, formats, scratch, fusions, reorders of memory in one pass, and the
// alternatives with their times (the best of `runs`, none if 0) and why they lost; at the end
// MemoryLines. Runs the net once, forward and, unless it is a TEST net, backward.
std::string ExplainPlan(Stream& stream, Net<float>& net, int runs);

// What a net that shares memory takes up as planned: parameters, blobs, and what sharing saves.
std::vector<std::string> MemoryLines(const Net<float>& net);

}  // namespace carafe
