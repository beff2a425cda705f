#include "carafe/exchange/votes.h"

#include <bit>
#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"

namespace carafe {
namespace {

static_assert(std::is_trivially_copyable_v<StepVotes> && sizeof(StepVotes) % sizeof(double) == 0);

constexpr int kFewRanks = 3;  // up to here one message to every other rank is fastest

template <typename Votes>
std::vector<Transfer> VoteTransfers(int rank, int size, bool with_timeout,
                                    std::vector<Votes>& steps) {
  const auto program = with_timeout ? SumWithTimeout : size <= kFewRanks ? SumByAll : SumByDoubling;
  std::vector<Transfer> transfers;
  for (Votes& votes : steps) {
    const auto count = static_cast<int64_t>(votes.size());
    transfers.push_back(
        {.data = votes.data(), .count = count, .chunks = {program(rank, size, 0, count)}});
  }
  return transfers;
}

}  // namespace

VoteReduction::VoteReduction(int rank, int size, bool with_timeout, int steps)
    : votes_(static_cast<size_t>(steps)),
      complete_(votes_.size()),
      engine_(rank, size, ElementsOf<double>(), VoteTransfers(rank, size, with_timeout, votes_),
              {kVotesTag, kVotesPayloadTag}) {}

void VoteReduction::OnVotes(const StepVotes& mine) {
  Ensure(begun_ - taken_ < Count(votes_), "the votes of too many steps are in progress");
  const int slot = SlotOf(begun_++);
  At(votes_, slot) = std::bit_cast<Votes>(mine);
  engine_.OnReady(slot);
}

bool VoteReduction::TakeComplete(StepVotes* verdict) {
  for (const int slot : engine_.TakeComplete()) complete_[static_cast<size_t>(slot)] = true;
  const int slot = SlotOf(taken_);
  if (!complete_[static_cast<size_t>(slot)]) return false;
  complete_[static_cast<size_t>(slot)] = false;
  ++taken_;
  *verdict = std::bit_cast<StepVotes>(At(votes_, slot));
  return true;
}

}  // namespace carafe
