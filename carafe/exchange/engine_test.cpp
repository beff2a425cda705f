#include "carafe/exchange/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "carafe/comm/thread_transport.h"
#include "carafe/exchange/scheme.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

using Writer = std::function<Program(int rank, int size, int64_t begin, int64_t end)>;

const std::pair<const char*, Writer> kSums[] = {{"all", SumByAll},
                                                {"owners", SumByOwners},
                                                {"halving", SumByHalving},
                                                {"doubling", SumByDoubling}};

// All ranks in one thread, polled in a random order that the seed fixes.
class World {
 public:
  World(int size, const std::vector<int64_t>& counts, int64_t chunk, const Writer& writer, int seed)
      : size_(size), counts_(counts), random_(seed), hub_(MakeThreadHub(size)) {
    for (int r = 0; r < size; ++r) {
      transports_.push_back(MakeThreadTransport(hub_, r));
      auto& memory = memory_.emplace_back();
      for (int64_t count : counts) memory.emplace_back(count);
      std::vector<Transfer> transfers;
      for (size_t b = 0; b < counts.size(); ++b)
        transfers.push_back({.data = memory[b].data(),
                             .count = counts[b],
                             .priority = static_cast<int>(b),
                             .chunks = Cut(counts[b], chunk, [&](int64_t begin, int64_t end) {
                               return writer(r, size, begin, end);
                             })});
      engines_.push_back(std::make_unique<Engine>(r, size, ElementsOf<float>(),
                                                  std::move(transfers), ChannelTags{100, 1000}));
      ready_.emplace_back();
      complete_.emplace_back();
    }
  }
  ~World() {
    for (const auto& engine : engines_) engine->Close();
    PollUntilQuiet();
    for (const auto& engine : engines_) EXPECT_TRUE(engine->Idle());
  }

  // Each rank announces the buckets in an order of its own; a bucket again only when it is
  // complete.
  void Step(int step) {
    for (int r = 0; r < size_; ++r) {
      ready_[r].resize(counts_.size());
      std::iota(ready_[r].begin(), ready_[r].end(), 0);
      std::shuffle(ready_[r].begin(), ready_[r].end(), random_);
      complete_[r].clear();
      for (size_t b = 0; b < counts_.size(); ++b)
        for (int64_t i = 0; i < counts_[b]; ++i)
          memory_[r][b][i] = OrderSensitive<float>(r, step + static_cast<int64_t>(b) * 17 + i);
    }
    PollUntilQuiet();
    for (int r = 0; r < size_; ++r) {
      std::sort(complete_[r].begin(), complete_[r].end());
      std::vector<int> all(counts_.size());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(complete_[r], all) << "rank " << r << " of " << size_;
      EXPECT_TRUE(engines_[r]->WaitsFor().empty());
    }
  }

  // Whether rank r holds the tree sum of everything, after Step(step).
  void ExpectSums(int r, int step) {
    int64_t wrong = 0;
    for (size_t b = 0; b < counts_.size(); ++b)
      for (int64_t i = 0; i < counts_[b]; ++i)
        wrong += memory_[r][b][i] != TreeByHand<float>(0, size_, [&](int part) {
                   return OrderSensitive<float>(part, step + static_cast<int64_t>(b) * 17 + i);
                 });
    EXPECT_EQ(wrong, 0) << "rank " << r << " of " << size_;
  }

  int64_t bytes_sent(int r) const { return engines_[r]->bytes_sent(); }
  int64_t bytes_received(int r) const { return engines_[r]->bytes_received(); }
  const std::vector<float>& memory(int r, int b) const { return memory_[r][b]; }

 private:
  void PollUntilQuiet() {
    int idle = 0;
    while (idle < 40 * size_) {
      const int r = Draw(size_);
      if (!ready_[r].empty() && Draw(3) == 0) {
        engines_[r]->OnReady(ready_[r].back());
        ready_[r].pop_back();
      }
      idle = engines_[r]->Poll(*transports_[r]) || !ready_[r].empty() ? 0 : idle + 1;
      for (int b : engines_[r]->TakeComplete()) complete_[r].push_back(b);
    }
  }
  int Draw(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  const int size_;
  const std::vector<int64_t> counts_;
  std::mt19937 random_;
  std::shared_ptr<ThreadHub> hub_;
  std::vector<std::vector<std::vector<float>>> memory_;  // by rank and bucket
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Transport>> transports_;  // go before the memory that they hold
  std::vector<std::vector<int>> ready_;
  std::vector<std::vector<int>> complete_;
};

TEST(Engine, SumsInTheFixedTreeByEveryAlgorithmInAnyOrderOfEvents) {
  for (const auto& [name, writer] : kSums)
    for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23}) {
      SCOPED_TRACE(name);
      for (int seed = 0; seed < 3; ++seed) {
        World world(size, {0, 1, 2, 100, 7, 333, 8, 64}, seed % 3 == 0 ? 10 : 250, writer, seed);
        for (int step = 0; step < 3; ++step) {
          world.Step(step);
          for (int r = 0; r < size; ++r) world.ExpectSums(r, step);
        }
      }
    }
}

TEST(Engine, SumsMessagesThatWaitForTheirReceiver) {
  for (const auto& [name, writer] : kSums)
    for (int size : {2, 3, 5}) {  // messages above what a transport copies at once
      SCOPED_TRACE(name);
      World world(size, {30000, 5, 10001}, 8192, writer, size);
      for (int step = 0; step < 2; ++step) {
        world.Step(step);
        for (int r = 0; r < size; ++r) world.ExpectSums(r, step);
      }
    }
}

using HostWriter = Program (*)(int, int, const HostLayout&, int64_t, int64_t);

// For hosts of so many ranks each.
Writer OnHosts(HostWriter writer, int local) {
  return [=](int rank, int size, int64_t begin, int64_t end) {
    return writer(rank, size, HostLayout::Even(size, local), begin, end);
  };
}

Program SumByHostsAndOwners(int rank, int size, const HostLayout& hosts, int64_t begin,
                            int64_t end) {
  return SumByHosts(rank, size, hosts, BetweenHosts::kOwners, begin, end);
}

Program SumByHostsAndHalving(int rank, int size, const HostLayout& hosts, int64_t begin,
                             int64_t end) {
  return SumByHosts(rank, size, hosts, BetweenHosts::kHalving, begin, end);
}

TEST(Engine, SumsInsideHostsFirstGiveTheSameBits) {
  for (int local : {1, 2, 4})
    for (int hosts : {2, 3, 5, 8}) {
      const int size = hosts * local;
      World world(size, {0, 1, 2, 100, 7, 3333}, 250, OnHosts(SumByHostsAndOwners, local), size);
      World halving(size, {0, 1, 2, 100, 7, 3333}, 250, OnHosts(SumByHostsAndHalving, local), size);
      World server(size, {0, 1, 2, 100, 7, 3333}, 250, OnHosts(GatherAtRoot, local), size);
      for (int step = 0; step < 2; ++step) {
        world.Step(step);
        for (int r = 0; r < size; ++r) world.ExpectSums(r, step);
        halving.Step(step);
        for (int r = 0; r < size; ++r) halving.ExpectSums(r, step);
        server.Step(step);
        server.ExpectSums(0, step);
      }
    }
}

// Elements that leave the host of `first_rank`.
int64_t LeaveHost(const Writer& writer, int size, int local, int first_rank) {
  int64_t count = 0;
  for (int r = first_rank; r < first_rank + local; ++r)
    for (const Operation& operation : writer(r, size, 0, 9600))
      if (operation.kind == Operation::Kind::kSend && operation.peer / local != r / local)
        count += operation.end - operation.begin;
  return count;
}

TEST(Engine, SumsInsideHostsFirstSendLessBetweenHostsByTheNumberOfLocalRanks) {
  for (int local : {2, 4, 8})
    for (int hosts : {2, 3, 4}) {
      const int size = local * hosts;
      const auto leave = [&](const Writer& writer) { return LeaveHost(writer, size, local, 0); };
      EXPECT_EQ(leave(OnHosts(SumByHostsAndOwners, local)), 2 * (hosts - 1) * 9600 / hosts);
      EXPECT_EQ(leave(SumByOwners), local * leave(OnHosts(SumByHostsAndOwners, local)));
      EXPECT_EQ(leave(OnHosts(SpreadFromRoot, local)), (hosts - 1) * 9600);
      EXPECT_EQ(leave(OnHosts(SpreadFromRoot, 1)), local * (hosts - 1) * 9600);
      EXPECT_EQ(LeaveHost(OnHosts(GatherAtRoot, local), size, local, local), 9600);
      EXPECT_EQ(LeaveHost(OnHosts(GatherAtRoot, 1), size, local, local), local * 9600);
    }
}

TEST(Engine, SumsAtTheRootAsTheTreeDoes) {
  for (const auto& writer : {OnHosts(GatherAtRoot, 1), OnHosts(SumUpTree, 1)})
    for (int size : {1, 2, 3, 5, 7, 8, 13}) {
      World world(size, {100, 3000, 1}, 700, writer, size);
      for (int step = 0; step < 3; ++step) {
        world.Step(step);
        world.ExpectSums(0, step);
      }
    }
}

TEST(Engine, HandsOutWhatTheRootHas) {
  const auto down = [](int branches, int local = 1) {
    return Writer([=](int rank, int size, int64_t begin, int64_t end) {
      return SpreadDownTree(rank, size, HostLayout::Even(size, local), branches, begin, end);
    });
  };
  const auto out = [](int local) {
    return Writer([=](int rank, int size, int64_t begin, int64_t end) {
      return SpreadFromRoot(rank, size, HostLayout::Even(size, local), begin, end);
    });
  };
  for (const auto& writer : {out(1), out(4), down(1), down(2), down(5), down(2, 4)})
    for (int size : {2, 3, 8, 13}) {
      World world(size, {100, 3000}, 700, writer, size);
      for (int step = 0; step < 3; ++step) {
        world.Step(step);
        for (int r = 1; r < size; ++r)
          for (int b : {0, 1}) EXPECT_EQ(world.memory(r, b), world.memory(0, b));
      }
    }
}

TEST(Engine, MovesTwiceTheBucketLessItsOwnShare) {
  for (const auto& writer : {Writer(SumByOwners), Writer(SumByHalving)})
    for (int size : {2, 4, 8}) {
      World world(size, {1600}, 400, writer, 1);
      world.Step(0);
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(world.bytes_sent(r), 2 * (size - 1) * 1600 / size * int64_t{sizeof(float)});
        EXPECT_EQ(world.bytes_received(r), world.bytes_sent(r));
      }
    }
}

TEST(Engine, AddsTheOtherWorkersOfTheRankAndClearsThem) {
  std::vector<float> first = {1, 2, 3}, second = {10, 20, 30}, third = {100, 200, 300};
  Engine engine(0, 1, ElementsOf<float>(),
                {{.data = first.data(),
                  .count = 3,
                  .chunks = {Program{}},
                  .other_parts = {second.data(), third.data()}}},
                ChannelTags{100, 1000});
  const auto hub = MakeThreadHub(1);
  const auto transport = MakeThreadTransport(hub, 0);
  engine.OnReady(0);
  engine.Poll(*transport);
  EXPECT_EQ(engine.TakeComplete(), std::vector<int>{0});
  EXPECT_EQ(first, (std::vector<float>{111, 222, 333}));
  EXPECT_EQ(second, std::vector<float>(3));
  EXPECT_EQ(third, std::vector<float>(3));
}

TEST(Engine, NamesAPeerThatTakesNothing) {
  std::vector<float> values(1000);
  const auto chunks = Cut(
      1000, 100, [](int64_t begin, int64_t end) { return SpreadFromRoot(0, 2, {}, begin, end); });
  const auto hub = MakeThreadHub(2);
  const auto transport = MakeThreadTransport(hub, 0);
  Engine engine(0, 2, ElementsOf<float>(),
                {{.data = values.data(), .count = 1000, .chunks = chunks}}, ChannelTags{100, 1000});
  engine.OnReady(0);
  for (int i = 0; i < 5; ++i) engine.Poll(*transport);
  EXPECT_TRUE(engine.Busy());
  EXPECT_EQ(engine.WaitsFor(), std::vector<int>{1}) << "rank 1 never receives";
}

}  // namespace
}  // namespace carafe
