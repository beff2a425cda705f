// The vote reduction: sums the votes of a step over all ranks, in the fixed tree. It has an engine
// and tags of its own, so that votes do not queue behind gradients.
#pragma once

#include <array>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/comm/transport.h"
#include "carafe/exchange/engine.h"

namespace carafe {

// What each rank contributes to a step besides gradients; the verdict is the sum over all ranks.
// Trivially copyable, doubles only.
struct StepVotes {
  double loss = 0;       // to be divided by weight
  double weight = 0;     // 1 per worker that has a loss
  double stop = 0;       // > 0: a rank was asked to stop
  double terminate = 0;  // > 0: a rank was asked to stop with a snapshot (SIGTERM)
  double snapshot = 0;   // > 0: a rank was asked for a snapshot
  double bad = 0;        // > 0: a rank has a NaN or infinite loss
};

// Single-threaded, polled like the engine.
class VoteReduction {
 public:
  // `with_timeout`: rank 0 adds, and votes that are late at OnTimeout count in the next step.
  // `steps`: how many may be in progress at once; 1 with a timeout.
  VoteReduction(int rank, int size, bool with_timeout = false, int steps = 1);

  // Starts a step; the one that is `steps` before it must be complete, and taken.
  void OnVotes(const StepVotes& mine);
  void OnTimeout() { engine_.OnTimeout(0); }
  void Close() { engine_.Close(); }
  bool Poll(Transport& transport) { return engine_.Poll(transport); }
  // True once after each step, in their order: its sum is complete, and in `verdict`.
  bool TakeComplete(StepVotes* verdict);
  bool Idle() const { return engine_.Idle(); }
  bool Busy() const { return engine_.Busy(); }
  std::vector<int> WaitsFor() const { return engine_.WaitsFor(); }

 private:
  using Votes = std::array<double, sizeof(StepVotes) / sizeof(double)>;
  int SlotOf(int64_t step) const { return static_cast<int>(step % Count(votes_)); }

  std::vector<Votes> votes_;  // by step modulo its size; before engine_, its user
  std::vector<bool> complete_;
  int64_t begun_ = 0, taken_ = 0;  // steps
  Engine engine_;
};

}  // namespace carafe
