#include "carafe/train/broadcast_message.h"

#include <cstdint>
#include <string>

#include "carafe/base/error.h"

namespace carafe {

void BroadcastMessage(Group& group, google::protobuf::MessageLite* message, std::string_view what) {
  if (group.size() == 1) return;
  std::string bytes = group.rank() == 0 ? message->SerializeAsString() : "";
  uint64_t size = bytes.size();
  group.Broadcast(&size, sizeof size, 0, what);
  bytes.resize(size);
  group.Broadcast(bytes.data(), bytes.size(), 0, what);
  if (group.rank() != 0) Ensure(message->ParseFromString(bytes), "a message arrived incomplete");
}

}  // namespace carafe
