// `carafe time`: how long each layer takes, forward and backward.
#pragma once

#include <string>
#include <vector>

#include "carafe/core/stream.h"
#include "carafe/net/net.h"

namespace carafe {

struct LayerTime {
  std::string name, type;
  double forward_ms = 0, backward_ms = 0;  // means
};

struct NetTime {
  std::vector<LayerTime> layers;
  double forward_ms = 0, backward_ms = 0, both_ms = 0, total_ms = 0;
};

// Runs the net `iterations` times after one pass of warm-up. Backward is that of training: layers
// that need none take no time.
NetTime TimeNet(Stream& stream, Net<float>& net, int iterations);

// Caffe's lines, which existing scripts read.
void LogNetTime(const NetTime& time, int iterations);

}  // namespace carafe
