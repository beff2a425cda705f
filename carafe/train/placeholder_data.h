// Nets checked where their data are missing: such data layers become inputs of the declared shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/net/net_spec.h"

namespace carafe {

// `spec` with those data layers of images (layers/data_layer.h) that `state` includes and whose
// source does not exist turned into Input layers of the same name and tops: (batch_size, C, H, W)
// and (batch_size). C, H and W are `item` if it holds three numbers, else what the settings tell:
// crop_size, or the declared height and width, and the declared number of channels or that of
// mean_values (3 if fewer than two). Throws ConfigError for a layer that tells nothing. `notes`
// gets one line per replaced layer, for users.
NetSpec WithPlaceholderData(const NetSpec& spec, const NetState& state,
                            const std::vector<int64_t>& item, std::vector<std::string>* notes);

}  // namespace carafe
