// Who uses which message tags. Messages of different users never meet.
#pragma once

namespace carafe {

constexpr int kControlTag = 1;         // heartbeats, failures, leave-taking
constexpr int kCollectiveTag = 2;      // Group's collectives, in call order
constexpr int kVotesTag = 3;           // the votes of a step, in step order
constexpr int kFirstExchangeTag = 16;  // buckets, from here on; see exchange/engine.h

}  // namespace carafe
