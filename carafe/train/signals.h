// Signals as requests: recorded by the handler, taken once per iteration. SIGINT or SIGUSR2 (which
// mpirun passes on) stops, SIGHUP or SIGUSR1 snapshots, SIGTERM stops with a snapshot; a second
// SIGINT ends the process at once.
#pragma once

#include <atomic>

namespace carafe {

// What --sigint_effect and --sighup_effect ask for.
enum class SignalEffect { kNone, kStop, kSnapshot };

struct SignalRequests {
  bool stop = false;       // finish this iteration, then the usual end
  bool terminate = false;  // the same, but always with a snapshot, and exit 75
  bool snapshot = false;
};

// Installs handlers for its lifetime and puts the old ones back. One at a time per process.
class SignalWatch {
 public:
  SignalWatch(SignalEffect on_sigint, SignalEffect on_sighup);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  SignalRequests Take();                           // what came since the last call
  static const std::atomic<bool>& asked_to_end();  // SIGTERM has come
};

}  // namespace carafe
