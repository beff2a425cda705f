// Arrays of floats by name in one file, for a comparison with other programs: one line of JSON,
// [{"name": .., "shape": [..]}, ..], then the values of all of them in that order, as they lie in
// memory (32-bit, little-endian on every machine that we know).
#pragma once

#include <string>
#include <vector>

#include "carafe/core/shape.h"

namespace carafe {

struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// Throws DataError if the file cannot be written.
void WriteTensors(const std::string& path, const std::vector<Tensor>& tensors);
// Throws DataError for a file of another kind, or one that is cut off.
std::vector<Tensor> ReadTensors(const std::string& path);

// |a - b| and |b|, in the 2-norm. Throws InternalError if names or shapes differ.
struct Distance {
  double difference = 0, scale = 0;
};
Distance DistanceOf(const Tensor& a, const Tensor& b);

}  // namespace carafe
