// Old forms of nets, brought up to date when they are read.
#pragma once

#include "carafe/proto/messages.h"

namespace carafe {

// A BatchNorm with three `param` entries, as older files have it, gets lr_mult and decay_mult 0 in
// all of them: running statistics are not learned. Returns whether anything was changed.
bool UpgradeBatchNorm(NetParameter* net);

}  // namespace carafe
