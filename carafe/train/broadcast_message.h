// A protobuf message of rank 0, sent to all ranks.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string_view>

#include "carafe/comm/group.h"

namespace carafe {

// Afterwards every rank's message is rank 0's. All ranks call it; `what` is for warnings and
// errors.
void BroadcastMessage(Group& group, google::protobuf::MessageLite* message, std::string_view what);

}  // namespace carafe
