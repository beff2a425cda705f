// Sums the votes of a step over all ranks, in the fixed tree: an engine of its own, so that votes
// do not queue behind gradients. Single-threaded, polled like the engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "carafe/comm/transport.h"
#include "carafe/exchange/engine.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

class Ballot {
 public:
  // `in_time`: rank 0 counts, and late votes count in the next step (OnTimeUp).
  Ballot(int rank, int size, bool in_time = false);

  // Begins a step; the one before must be complete.
  void OnVotes(const StepVotes& mine);
  void OnTimeUp() { engine_.OnTimeUp(0); }
  void Close() { engine_.Close(); }
  bool Poll(Transport& transport) { return engine_.Poll(transport); }
  // Once after each step: its sum is in.
  bool TakeComplete(StepVotes* verdict);
  bool Idle() const { return engine_.Idle(); }
  bool Busy() const { return engine_.Busy(); }
  std::vector<int> Awaited() const { return engine_.Awaited(); }

 private:
  std::array<double, sizeof(StepVotes) / sizeof(double)> votes_ = {};  // before the engine
  Engine<double> engine_;
};

}  // namespace carafe
