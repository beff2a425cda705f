// Programs that gather parts, on any layout of hosts, run by the simulator.
#include "carafe/exchange/factor_program.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/comm/sim_transport.h"
#include "carafe/comm/tags.h"
#include "carafe/exchange/engine.h"

namespace carafe {
namespace {

TEST(GatherParts, BringsEveryPartToEveryRankAndIntoEveryHostOnce) {
  const std::vector<RanksByHost> layouts = {
      {},                        // every rank is a host
      {{0, 1, 2, 3, 4, 5}},      // one host
      {{0, 1, 2}, {3, 4, 5}},    // no power of two
      {{0}, {1, 2, 3, 4}, {5}},  // unequal
      {{0, 2, 4}, {1, 3}, {5}},  // not neighbours
  };
  const std::vector<int64_t> parts = {7, 0, 12, 1, 5, 30};
  constexpr int kRanks = 6;
  for (const RanksByHost& hosts : layouts) {
    const auto host_of = [&](int rank) {
      for (int h = 0; h < Count(hosts); ++h)
        for (const int r : At(hosts, h))
          if (r == rank) return h;
      return rank;
    };
    SimNetwork network(kRanks);
    std::vector<int64_t> left(kRanks);  // elements that leave a host, by host
    network.Watch([&](int from, int to, int tag, size_t size) {
      if (tag >= kExchangePayloadTag && host_of(from) != host_of(to))
        At(left, host_of(from)) += static_cast<int64_t>(size / sizeof(float));
    });
    std::vector<std::vector<float>> memory(kRanks, std::vector<float>(55));
    std::vector<std::unique_ptr<Engine>> engines;
    for (int r = 0; r < kRanks; ++r) {
      int64_t begin = 0;
      for (int before = 0; before < r; ++before) begin += At(parts, before);
      for (int64_t i = 0; i < At(parts, r); ++i)
        At(At(memory, r), begin + i) = static_cast<float>(begin + i + 1);
      engines.push_back(std::make_unique<Engine>(
          r, kRanks, ElementsOf<float>(),
          std::vector<Transfer>{{.data = At(memory, r).data(),
                                 .count = 55,
                                 .chunks = GatherParts(r, hosts, parts, 4)}},
          ChannelTags{kExchangeTag, kExchangePayloadTag}));
      network.At(0, r, [&, r] { At(engines, r)->OnReady(0); });
    }
    network.Run([&](int r) {
      while (At(engines, r)->Poll(network.transport(r))) continue;
    });
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(At(engines, r)->TakeComplete(), std::vector<int>{0});
      for (int64_t i = 0; i < 55; ++i)
        ASSERT_EQ(At(At(memory, r), i), static_cast<float>(i + 1)) << "rank " << r;
    }
    const int others = hosts.empty() ? kRanks - 1 : Count(hosts) - 1;
    std::map<int, int64_t> of_host;
    for (int r = 0; r < kRanks; ++r) of_host[host_of(r)] += At(parts, r);
    for (const auto& [host, elements] : of_host) EXPECT_EQ(At(left, host), others * elements);
  }
}

}  // namespace
}  // namespace carafe
