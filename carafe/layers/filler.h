// How parameters start: Caffe's seven fillers, drawn from a key of their own so that they do not
// depend on rank or order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/core/shape.h"
#include "carafe/proto/messages.h"

namespace carafe {

// The starting values of a blob. `where` names the parameter in errors. Throws ConfigError for an
// unknown type (with the nearest names) or settings that do not fit the shape.
std::vector<double> FillerValues(const FillerParameter& filler, const Shape& shape, uint64_t key,
                                 const std::string& where);

}  // namespace carafe
