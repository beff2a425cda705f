// Real threads, and messages that are held back at random: no bit changes, and nothing hangs.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "carafe/comm/thread_transport.h"
#include "tests/support/delayed_transport.h"
#include "tests/support/exchange_values.h"

namespace carafe {
namespace {

// 200 schedules: every scheme and algorithm on 2 to 5 ranks, with and without letters, with several
// workers in every fourth.
TEST(Delays, OfEveryMessageAtRandomChangeNoBitAndNeverDeadlock) {
  struct Way {
    const char* scheme;
    SchemeSettings settings;
  };
  const std::array ways = {Way{"allreduce", {}},
                           Way{"server", {}},
                           Way{"tree", {}},
                           Way{"allreduce", {.algorithm = "halving"}},
                           Way{"allreduce", {.algorithm = "owners"}},
                           Way{"server", {.timeout = 1e6}},
                           Way{"tree", {.branches = 3}}};
  std::map<int, std::vector<float>> expected;  // by ranks and workers
  for (int seed = 0; seed < 200; ++seed) {
    Way way = ways[static_cast<size_t>(seed) % ways.size()];
    way.settings.message_bytes = 2000;
    const int ranks = 2 + seed / 7 % 4, workers = seed % 4 == 0 ? 2 : 1;
    const auto [plain, is_new] = expected.try_emplace(ranks * 10 + workers);
    if (is_new) plain->second = ValuesAfter("allreduce", ranks, workers, true, false);
    const std::vector<float> values =
        ValuesAfter(way.scheme, ranks, workers, seed % 5 != 0, false, way.settings, 0,
                    Delayed(static_cast<uint64_t>(seed) + 1, seed % 2 == 0));
    ASSERT_EQ(values, plain->second) << "seed " << seed << ", " << way.scheme;
  }
}

// The transport of this test itself.
TEST(Delays, LetMessagesOfOtherTagsPassAndKeepTheOrderOfATag) {
  constexpr int kMessages = 200;
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(2);
  DelayedTransport from(MakeThreadTransport(hub, 0), 1, false);
  DelayedTransport to(MakeThreadTransport(hub, 1), 2, false);
  std::vector<int> sent(kMessages), got(kMessages, -1);
  std::vector<Transport::Request> sends;
  std::map<int, std::deque<std::pair<int, Transport::Request>>> receives;  // by tag: number
  for (int i = 0; i < kMessages; ++i) {
    sent[static_cast<size_t>(i)] = i;
    sends.push_back(from.Send(1, i % 3, &sent[static_cast<size_t>(i)], sizeof(int)));
    receives[i % 3].emplace_back(i,
                                 to.Receive(0, i % 3, &got[static_cast<size_t>(i)], sizeof(int)));
  }
  int overtaken = 0, last = -1;
  while (!receives.empty()) {
    std::erase_if(sends, [&](auto request) { return from.Done(request); });
    for (auto& [tag, waiting] : receives)
      while (!waiting.empty() && to.Done(waiting.front().second)) {
        overtaken += waiting.front().first < last;
        last = waiting.front().first;
        waiting.pop_front();
      }
    std::erase_if(receives, [](const auto& queue) { return queue.second.empty(); });
  }
  EXPECT_EQ(got, sent) << "each where its turn was";
  EXPECT_GT(overtaken, 10);
}

}  // namespace
}  // namespace carafe
