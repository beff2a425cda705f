// Who uses which message tags. Messages of different users never meet.
#pragma once

namespace carafe {

constexpr int kControlTag = 1;             // heartbeats, failures, leave-taking
constexpr int kCollectiveTag = 2;          // Group's collectives, in call order
constexpr int kVotesTag = 3;               // the votes of a step: headers
constexpr int kExchangeTag = 4;            // gradients and values: headers, see exchange/channel.h
constexpr int kSetUpTag = 5;               // who shares memory with whom
constexpr int kVotesPayloadTag = 4096;     // and 4095 more
constexpr int kExchangePayloadTag = 8192;  // and 4095 more

}  // namespace carafe
