// Messages that every transport must carry, sent and checked by one rank; all ranks do the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

inline void Await(Transport& transport, Transport::Request request) {
  while (!transport.Done(request)) std::this_thread::yield();
}

inline void AwaitAll(Transport& transport, std::vector<Transport::Request> requests) {
  while (!requests.empty())
    if (std::erase_if(requests, [&](auto r) { return transport.Done(r); }) == 0)
      std::this_thread::yield();
}

inline std::vector<int> Content(size_t length, int first) {
  std::vector<int> content(length);
  std::iota(content.begin(), content.end(), first);
  return content;
}

// Of one tag, to the next rank: they come in order.
inline void SendMessagesOfAnySize(Transport& t) {
  const int next = (t.rank() + 1) % t.size();
  const int last = (t.rank() + t.size() - 1) % t.size();
  std::vector<std::vector<int>> out, in;
  std::vector<Transport::Request> requests;
  for (size_t length : {0, 1, 1019, 1020, 1023, 1024, 1025, 5000, 3, 65536, 65537, 1000000, 7}) {
    out.push_back(Content(length, t.rank() * 100));
    in.emplace_back(length, -1);
  }
  for (const auto& message : out)
    requests.push_back(t.Send(next, 5, message.data(), message.size() * sizeof(int)));
  for (auto& message : in)
    requests.push_back(t.Receive(last, 5, message.data(), message.size() * sizeof(int)));
  AwaitAll(t, requests);
  for (const auto& message : in) EXPECT_EQ(message, Content(message.size(), last * 100));
}

// Of several tags, to every rank. Many come long before anybody wants them, and in another order
// than they are wanted.
inline void SendInRandomOrder(Transport& t) {
  std::mt19937 random(17);
  constexpr int kTags = 5, kMessages = 600;
  std::vector<std::vector<int>> out, in[3];
  std::vector<int> tags;
  for (int i = 0; i < kMessages; ++i) {
    const size_t length = random() % 3 == 0 ? random() % 100000 : random() % 2000;
    tags.push_back(static_cast<int>(random() % kTags) + 10);
    out.push_back(Content(length, i));
    for (auto& all : in) all.emplace_back(length, -1);
  }
  std::vector<Transport::Request> requests;
  std::vector<int> order(kMessages);
  std::iota(order.begin(), order.end(), 0);
  // Receives of one tag stay in order, tags do not.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return (tags[a] * 7 + t.rank()) % kTags < (tags[b] * 7 + t.rank()) % kTags;
  });
  for (int i = 0; i < kMessages; ++i)
    for (int r = 0; r < 3; ++r) {
      if (r == t.rank()) continue;
      requests.push_back(t.Send(r, tags[i], out[i].data(), out[i].size() * sizeof(int)));
      if (i % 50 == 0) std::erase_if(requests, [&](auto request) { return t.Done(request); });
      auto& place = in[r][order[i]];
      requests.push_back(t.Receive(r, tags[order[i]], place.data(), place.size() * sizeof(int)));
    }
  AwaitAll(t, requests);
  for (int r = 0; r < 3; ++r) {
    if (r == t.rank()) continue;
    EXPECT_EQ(in[r], out);
  }
}

}  // namespace carafe
