// How ranks exchange structures of fixed size, each with each, over a transport that exists
// already. With these they set up faster transports (shm_transport.cpp, tcp_sockets.cpp).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"
#include "carafe/comm/transport.h"

namespace carafe {

inline std::vector<int> AllRanks(const Transport& transport) {
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Truncates what does not fit. `to` must be zero.
template <size_t N>
void CopyText(char (&to)[N], const std::string& text) {
  std::strncpy(to, text.c_str(), N - 1);
}

// Sends `mine` to `ranks` and returns theirs, in their order; this rank is one of them.
template <typename T>
std::vector<T> Handshake(Transport& transport, const std::vector<int>& ranks, const T& mine,
                         double timeout) {
  std::vector<T> all(ranks.size(), mine);
  std::vector<std::pair<Transport::Request, int>> requests;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == transport.rank()) continue;
    requests.emplace_back(transport.Receive(ranks[i], kHandshakeTag, &all[i], sizeof(T)), ranks[i]);
    requests.emplace_back(transport.Send(ranks[i], kHandshakeTag, &mine, sizeof(T)), ranks[i]);
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout);
  std::chrono::microseconds sleep{20};
  while (true) {
    const size_t before = requests.size();
    std::erase_if(requests, [&](const auto& r) { return transport.Done(r.first); });
    if (requests.empty()) return all;
    if (requests.size() < before) continue;
    if (Clock::now() > end)
      throw CommError(
          fmt::format("rank {} on {} waited {:.0f} s for rank {} to start", transport.rank(),
                      transport.host(), timeout, requests.front().second),
          "look at the output of that rank, and at the network between the hosts");
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, std::chrono::microseconds{1000});
  }
}

}  // namespace carafe
