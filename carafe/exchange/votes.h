// Sums the votes of a step over all ranks: everyone sends to everyone and adds in the fixed tree.
// Single-threaded, polled like the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "carafe/comm/transport.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

class Ballot {
 public:
  Ballot(int rank, int size) : rank_(rank), messages_(size), receives_(size) {}

  // Begins step `step`; the one before must be complete.
  void OnVotes(int64_t step, const StepVotes& mine);
  bool Poll(Transport& transport);
  // Once after each step: its sum is in.
  bool TakeComplete(StepVotes* verdict);
  bool Idle() const { return state_ == State::kIdle; }
  std::vector<int> Awaited() const;

 private:
  enum class State { kIdle, kNew, kOpen, kComplete };
  struct Message {
    int64_t step = 0;
    StepVotes votes;
  };

  const int rank_;
  State state_ = State::kIdle;
  std::vector<Message> messages_;  // by rank; this rank's is what it sends
  std::vector<Transport::Request> receives_;
  std::vector<Transport::Request> sends_;
};

}  // namespace carafe
