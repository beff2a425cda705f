// Nets judged where their data are not: data layers whose files are missing become inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/net/net_spec.h"

namespace carafe {

// `spec` with the Data, ImageData and WindowData layers that `state` includes and whose source does
// not exist turned into Input layers of the same name and tops: (batch_size, C, H, W) and
// (batch_size). C, H and W are `item` if it holds three numbers, else what the layer says by
// itself: crop_size, or the resized height and width, and the number of mean_values (3 if fewer
// than two). Throws ConfigError for a layer that says nothing. `notes` gets one line per replaced
// layer, for people.
NetSpec WithStandInsForMissingData(const NetSpec& spec, const NetState& state,
                                   const std::vector<int64_t>& item,
                                   std::vector<std::string>* notes);

}  // namespace carafe
