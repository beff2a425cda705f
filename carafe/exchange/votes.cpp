#include "carafe/exchange/votes.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"
#include "carafe/core/tree_sum.h"

namespace carafe {
namespace {

static_assert(std::is_trivially_copyable_v<StepVotes> && sizeof(StepVotes) % sizeof(double) == 0);
using Doubles = std::array<double, sizeof(StepVotes) / sizeof(double)>;

}  // namespace

void Ballot::OnVotes(int64_t step, const StepVotes& mine) {
  Ensure(state_ == State::kIdle, "votes for a step while the last one is open");
  messages_[rank_] = {step, mine};
  state_ = State::kNew;
}

bool Ballot::Poll(Transport& transport) {
  const int size = static_cast<int>(messages_.size());
  if (state_ == State::kNew) {
    state_ = State::kOpen;
    for (int r = 0; r < size; ++r) {
      if (r == rank_) continue;
      receives_[r] = transport.Receive(r, kVotesTag, &messages_[r], sizeof(Message));
      sends_.push_back(transport.Send(r, kVotesTag, &messages_[rank_], sizeof(Message)));
    }
  }
  if (state_ != State::kOpen) return false;
  bool open = false;
  for (Transport::Request& receive : receives_) {
    if (receive != 0 && transport.Done(receive)) receive = 0;
    open |= receive != 0;
  }
  std::erase_if(sends_, [&](Transport::Request r) { return transport.Done(r); });
  if (open || !sends_.empty()) return false;
  state_ = State::kComplete;
  return true;
}

bool Ballot::TakeComplete(StepVotes* verdict) {
  if (state_ != State::kComplete) return false;
  state_ = State::kIdle;
  const Message& mine = messages_[rank_];
  std::vector<Doubles> values;
  values.reserve(messages_.size());
  std::vector<const double*> parts;
  for (size_t r = 0; r < messages_.size(); ++r) {
    if (messages_[r].step != mine.step)
      throw CommError(fmt::format("rank {} votes on step {}, rank {} on step {}", r,
                                  messages_[r].step, rank_, mine.step),
                      "all ranks must run the same solver with the same flags");
    parts.push_back(values.emplace_back(std::bit_cast<Doubles>(messages_[r].votes)).data());
  }
  Doubles sum;
  TreeSum<double>(parts, sum.size(), sum.data());
  *verdict = std::bit_cast<StepVotes>(sum);
  return true;
}

std::vector<int> Ballot::Awaited() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(receives_.size()); ++r)
    if (receives_[r] != 0) ranks.push_back(r);
  return ranks;
}

}  // namespace carafe
