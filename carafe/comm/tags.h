// Who uses which message tags. Messages of different users never meet.
#pragma once

namespace carafe {

constexpr int kControlTag = 1;     // heartbeats, failures, leave-taking
constexpr int kCollectiveTag = 2;  // Group's collectives, in call order
constexpr int kVotesTag = 3;       // and 4: the votes of a step
constexpr int kExchangeTag = 16;   // and 17: gradients and values, see exchange/channel.h

}  // namespace carafe
