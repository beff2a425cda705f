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

}  // namespace carafe
