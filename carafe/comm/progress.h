// Who works on the messages in progress once a call to the communication thread has returned.
#pragma once

namespace carafe {

enum class Progress {
  kByThread,  // the communication thread, which is woken
  kByCaller,  // no thread is woken: the caller waits next, and polls while it waits; or nothing
              // that others wait for is in progress
};

}  // namespace carafe
