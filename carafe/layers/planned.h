// What a net's planner (net/plan.h) tells a layer that has several ways to work, and asks it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "carafe/core/blob.h"
#include "carafe/kernels/convolution_algorithms.h"

namespace carafe {

// One way of computing one direction, for `--plan=explain`.
struct PlannedWay {
  std::string direction, algorithm, formats;  // formats: "plain -> blocked8"
  bool chosen = false;
  size_t scratch_bytes = 0;
  double seconds = 0;  // 0: not measured
};

// A layer that can be planned is a Layer<T> and this. Planning may change between any two passes.
class Planned {
 public:
  virtual ~Planned() = default;
  virtual void SetChoices(std::shared_ptr<const AlgorithmChoices> choices) = 0;
  // Memory of the whole net in which nothing is kept between two calls.
  virtual void SetScratch(std::shared_ptr<Buffer> scratch) = 0;
  // All ways for this shape of the bottom; those of blocked formats are timed if `runs` is not 0.
  virtual std::vector<PlannedWay> Ways(Stream& stream, const Shape& bottom, int runs) = 0;
  // Adds the fastest algorithm of each direction, by AlgorithmChoices' key, unless it is there.
  virtual void Measure(Stream& stream, const Shape& bottom, int runs,
                       std::map<std::string, ConvolutionAlgorithm>* fastest) = 0;
};

}  // namespace carafe
