// What ranks tell each other before they talk: structures of fixed size, each to each, over a
// transport that is there already. With these the others find their own ways (shm_transport.cpp,
// tcp_sockets.cpp).
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

inline std::vector<int> Everyone(const Transport& transport) {
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Cut to what fits; `to` is zero before.
template <size_t N>
void Put(char (&to)[N], const std::string& text) {
  std::strncpy(to, text.c_str(), N - 1);
}

// What each of `ranks` says, in their order; this rank is one of them.
template <typename T>
std::vector<T> Ask(Transport& transport, const std::vector<int>& ranks, const T& mine,
                   double wait) {
  std::vector<T> all(ranks.size(), mine);
  std::vector<std::pair<Transport::Request, int>> requests;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == transport.rank()) continue;
    requests.emplace_back(transport.Receive(ranks[i], kSetUpTag, &all[i], sizeof(T)), ranks[i]);
    requests.emplace_back(transport.Send(ranks[i], kSetUpTag, &mine, sizeof(T)), ranks[i]);
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(wait);
  std::chrono::microseconds sleep{20};
  while (true) {
    const size_t before = requests.size();
    std::erase_if(requests, [&](const auto& r) { return transport.Done(r.first); });
    if (requests.empty()) return all;
    if (requests.size() < before) continue;
    if (Clock::now() > end)
      throw CommError(
          fmt::format("rank {} on {} waited {:.0f} s for rank {} to start", transport.rank(),
                      transport.host(), wait, requests.front().second),
          "look at the output of that rank, and at the network between the hosts");
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, std::chrono::microseconds{1000});
  }
}

}  // namespace carafe
