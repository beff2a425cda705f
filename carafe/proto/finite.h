// Refuses settings that are NaN or infinite: protobuf's text format reads `nan` and `inf`, and a
// number too large for its field as infinite.
#pragma once

#include <google/protobuf/message.h>

#include "carafe/proto/text.h"

namespace carafe {

enum class Infinite { kRefused, kAllowed };

// Throws ConfigError at the first bad number of the message, which `place` is of. Looks into nested
// messages, except into nets: those are checked as files of their own are.
void CheckFinite(const google::protobuf::Message& message, const Place& place, Infinite infinite);

}  // namespace carafe
