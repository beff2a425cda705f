// The message tags and their users.
#pragma once

namespace carafe {

constexpr int kControlTag = 1;             // heartbeats, failures, departures
constexpr int kCollectiveTag = 2;          // Group's collectives, in call order
constexpr int kVotesTag = 3;               // the votes of a step: headers
constexpr int kExchangeTag = 4;            // gradients and values: headers, see exchange/channel.h
constexpr int kHandshakeTag = 5;           // the set-up of transports (handshake.h)
constexpr int kVotesPayloadTag = 4096;     // and 4095 more
constexpr int kExchangePayloadTag = 8192;  // and 4095 more

}  // namespace carafe
