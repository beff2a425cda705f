// When verdicts are there and updates run: as soon as what they need is, not at the end of the
// step. Ranks wait for each other here as they would forever if that were not so.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/param_arena.h"

namespace carafe {
namespace {

// False: it never came.
bool Comes(const std::function<bool()>& what) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  while (!what()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Rank {
  Rank(Group& group, const std::string& name, const std::vector<int64_t>& counts, bool needs_all,
       const std::function<void(int)>& updated)
      : arena(counts), values(arena.memory.size()) {
    for (ParamInfo<float>& param : arena.params) param.value = values.data() + param.arena_offset;
    exchange = MakeExchange<float>(name, {.group = group,
                                          .params = arena.params,
                                          .update = [updated](int p, Stream&) { updated(p); },
                                          .update_needs_all = needs_all,
                                          .bucket_bytes = 1});
  }
  Arena<float> arena;
  std::vector<float> values;
  Stream stream;
  std::unique_ptr<Exchange<float>> exchange;
};

TEST(UpdateTimes, NobodyWaitsForTheBackwardPassOfOthersToGetTheVerdict) {
  for (const char* name : {"allreduce", "server", "tree"})
    for (int size : {2, 5}) {
      std::atomic<int> judged{0};
      RunRanks(size, [&](Group& group) {
        Rank rank(group, name, {3, 5}, false, [](int) {});
        rank.exchange->Vote({.loss = 1.0 + group.rank(), .weight = 1});
        const bool last = group.rank() == size - 1;
        if (last) {
          EXPECT_TRUE(Comes([&] { return judged == size - 1; })) << name;
        }
        for (int p : {1, 0}) rank.exchange->GradientReady(0, p, rank.stream);
        rank.exchange->FinishStep();
        EXPECT_EQ(rank.exchange->AwaitVerdict().loss, size * (size + 1) / 2.0);
        ++judged;
        rank.exchange->Drain(0, rank.stream);
      });
    }
}

TEST(UpdateTimes, WhoWaitsForOneSumMakesTheUpdatesOfOthersMeanwhile) {
  for (int size : {2, 3}) {
    std::atomic<bool> updated{false};
    RunRanks(size, [&](Group& group) {
      const bool root = group.rank() == 0;
      Rank rank(group, "allreduce", {3, 500, 7}, false, [&, root](int p) {
        if (root && p == 1) updated = true;
      });
      rank.exchange->Vote({});
      for (int p : {2, 1}) rank.exchange->GradientReady(0, p, rank.stream);
      if (group.rank() == 1) {
        EXPECT_TRUE(Comes([&] { return updated.load(); }));
      }
      rank.exchange->GradientReady(0, 0, rank.stream);
      rank.exchange->FinishStep();
      rank.exchange->AwaitVerdict();
      rank.exchange->AwaitValue(0, 0, rank.stream);
      rank.exchange->Drain(0, rank.stream);
    });
  }
}

// Announces a parameter every millisecond until somebody has updated one, then the rest. Says
// whether that happened.
bool UpdatesBeforeTheStepEnds(const char* name, bool bad, bool needs_all) {
  constexpr int kParams = 200;
  bool seen = false;
  std::atomic<int> updates{0};
  RunRanks(3, [&](Group& group) {
    Rank rank(group, name, std::vector<int64_t>(kParams, 4), needs_all, [&](int) { ++updates; });
    rank.exchange->Vote({.bad = bad ? 1.0 : 0.0});
    for (int p = kParams; p-- > 0;) {
      if (group.rank() == 0 && updates == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rank.exchange->GradientReady(0, p, rank.stream);
    }
    if (group.rank() == 0) seen = updates > 0;
    rank.exchange->FinishStep();
    if (rank.exchange->AwaitVerdict().bad > 0) {
      rank.exchange->Cancel();
    } else {
      rank.exchange->Drain(0, rank.stream);
    }
  });
  EXPECT_EQ(updates, bad ? 0 : kParams) << name;
  return seen;
}

TEST(UpdateTimes, ARootThatOthersWaitForUpdatesWithinItsBackwardPass) {
  for (const char* name : {"server", "tree"}) {
    EXPECT_TRUE(UpdatesBeforeTheStepEnds(name, false, false)) << name;
  }
}

TEST(UpdateTimes, NothingIsUpdatedEarlyThatMayBeThrownAwayOrClipped) {
  for (const char* name : {"server", "tree"}) {
    EXPECT_FALSE(UpdatesBeforeTheStepEnds(name, true, false)) << name;
    EXPECT_FALSE(UpdatesBeforeTheStepEnds(name, false, true)) << name;
  }
}

TEST(UpdateTimes, VotesOutOfTurnAreRefused) {
  RunRanks(2, [&](Group& group) {
    Rank rank(group, "allreduce", {3}, false, [](int) {});
    rank.exchange->GradientReady(0, 0, rank.stream);
    EXPECT_THROW(rank.exchange->FinishStep(), InternalError);  // nobody has voted
    rank.exchange->Vote({});
    EXPECT_THROW(rank.exchange->Vote({}), InternalError);
    rank.exchange->FinishStep();
    rank.exchange->AwaitVerdict();
    rank.exchange->Drain(0, rank.stream);
  });
}

}  // namespace
}  // namespace carafe
