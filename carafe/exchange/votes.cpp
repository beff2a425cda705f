#include "carafe/exchange/votes.h"

#include <bit>
#include <type_traits>

#include "carafe/comm/tags.h"

namespace carafe {
namespace {

static_assert(std::is_trivially_copyable_v<StepVotes> && sizeof(StepVotes) % sizeof(double) == 0);

constexpr int kFewRanks = 3;  // up to here one message to everyone is the fastest

std::vector<Journey<double>> VoteJourney(int rank, int size, bool in_time,
                                         std::span<double> votes) {
  const int64_t count = static_cast<int64_t>(votes.size());
  Journey<double> journey{.data = votes.data(), .count = count};
  const auto program = in_time ? SumInTime : size <= kFewRanks ? SumByAll : SumByDoubling;
  journey.chunks.push_back(program(rank, size, 0, count));
  return {std::move(journey)};
}

}  // namespace

Ballot::Ballot(int rank, int size, bool in_time)
    : engine_(rank, size, VoteJourney(rank, size, in_time, votes_), {kVotesTag, kVotesPayloadTag}) {
}

void Ballot::OnVotes(const StepVotes& mine) {
  votes_ = std::bit_cast<decltype(votes_)>(mine);
  engine_.OnReady(0);
}

bool Ballot::TakeComplete(StepVotes* verdict) {
  if (engine_.TakeComplete().empty()) return false;
  *verdict = std::bit_cast<StepVotes>(votes_);
  return true;
}

}  // namespace carafe
