// Fields of our own (number 10000 and up) are for our text files; files for other programs must not
// carry them.
#pragma once

#include <google/protobuf/message.h>

namespace carafe {

constexpr int kFirstPrivateField = 10000;

// Clears them in the message and in all messages inside it.
void DropPrivateFields(google::protobuf::Message* message);

}  // namespace carafe
