// Runs a command's body on every rank of the launcher, and makes the exit code of the job.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "carafe/comm/group.h"

namespace carafe {

// What must outlive the report of an error: exchanges, and everything that owns one. Destroying an
// exchange in mid-step shuts the transport down, and the ranks could no longer agree which of them
// prints the error. Used by one thread.
class KeptAlive {
 public:
  template <typename T, typename... Arguments>
  T& Make(Arguments&&... arguments) {
    const auto made = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    kept_.push_back(made);
    return *made;
  }
  ~KeptAlive() {
    while (!kept_.empty()) kept_.pop_back();  // the last one first
  }

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

// `body` returns the exit code. An exception is printed once, by the rank that the group chooses,
// and gives 1.
int RunOnRanks(const CommTimeouts& timeouts, const std::function<int(Group&, KeptAlive&)>& body);

}  // namespace carafe
