// Sets every field of a message, so that a test covers fields which are added later.
#pragma once

#include <google/protobuf/message.h>

namespace carafe {

// Every field gets a value that is not its default, repeated fields three; each field another one.
// Deprecated fields stay unset: they are read, but not written any more.
void FillMessage(google::protobuf::Message* message);

}  // namespace carafe
