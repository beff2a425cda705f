// The shards of the stale server in virtual time, with updates that can be counted: none is lost,
// none counts twice, a rank sees its own at once, and no rank is ahead by more than the staleness.
// CARAFE_SIM_SCHEDULES=10000 runs more schedules than the 60 of every day, and more ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

#include "carafe/exchange/send_order.h"
#include "tests/support/sim_stale_server.h"

namespace carafe {
namespace {

constexpr ServerSettings kClock{.update = ServerUpdate::kClock};
constexpr ServerSettings kArrival{.update = ServerUpdate::kArrival, .combine = Combine::kSum};

constexpr uint64_t kFewSchedules = 60;
constexpr uint64_t kStride = 11;  // between seeds, so that a few show all kinds of setups

uint64_t Schedules() {
  const char* asked = std::getenv("CARAFE_SIM_SCHEDULES");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : kFewSchedules;
}

// 2, 4 or 8 ranks, so that the share of a rank is exact.
SimStaleSetup SetupOf(uint64_t seed) {
  constexpr SendOrder kOrders[] = {SendOrder::kFifo, SendOrder::kRandom,
                                   SendOrder::kRelativeMagnitude, SendOrder::kFifoThenMagnitude};
  SimStaleSetup setup{.ranks = seed % 5 == 4   ? 8
                               : seed % 2 == 0 ? 2
                                               : 4,
                      .staleness = static_cast<int>(seed / 5 % 4),
                      .seed = seed};
  if (seed / 20 % 2 == 1) setup.bucket_bytes = size_t{1} << 20;
  if (seed / 40 % 4 == 3) setup.server = kClock;
  if (seed / 160 % 2 == 1 || seed % 7 == 0) {
    setup.server.consistency = Consistency::kManaged;
    setup.server.order = kOrders[seed % 4];
    setup.bytes_per_second = 1e6;
  }
  return setup;
}
SimOptions NetworkOf(uint64_t seed) { return {.jitter = seed % 2 ? 1e-3 : 1e-5, .seed = seed}; }

TEST(ArrivalSim, EveryUpdateCountsOnceUnderAnySchedule) {
  int64_t early = 0;
  for (uint64_t i = 0; i < Schedules(); ++i) {
    const uint64_t seed = i * kStride;
    const SimStaleSetup setup = SetupOf(seed);
    SCOPED_TRACE(
        fmt::format("seed {}: {} ranks, staleness {}", seed, setup.ranks, setup.staleness));
    SimNetwork network(setup.ranks, NetworkOf(seed));
    SimStaleServer server(setup, network);
    server.Run();
    ASSERT_TRUE(server.complete());
    ASSERT_LE(server.largest_gap(), setup.staleness);
    server.ExpectAllUpdatesOnce();
    early += server.early();
  }
  EXPECT_GT(early, 0) << "no update was read before its clock was complete";
}

// Rank 0 takes five times as long as the others, which end up s steps ahead, and no more.
TEST(ArrivalSim, OthersAreAheadOfASlowRankByTheStaleness) {
  for (const int staleness : {0, 1, 3, 10}) {
    SimNetwork network(4);
    SimStaleServer server({.ranks = 4, .staleness = staleness, .steps = 40, .random = false},
                          network);
    server.Run();
    EXPECT_TRUE(server.complete());
    EXPECT_EQ(server.largest_gap(), staleness);
  }
}

// After t seconds a fast rank has begun min(fast * t, slow * t + s) steps after its first one.
TEST(ArrivalSim, FastRanksGoAtTheirOwnSpeedUntilTheyAreAheadByTheStaleness) {
  constexpr int kStaleness = 8, kSteps = 40;
  constexpr double kStep = 1e-4, kSlow = 5;
  SimNetwork network(2, {.latency = 1e-7, .overhead = 1e-9});
  SimStaleServer server(
      {.ranks = 2, .staleness = kStaleness, .steps = kSteps, .counts = {2}, .random = false},
      network);
  int looked = 0;
  for (int k = 1; k < 180; ++k) {
    const double time = (k + 0.5) * kStep;  // between two steps of the fast rank
    network.At(time, 1, [&server, &looked, time] {
      const int slow = static_cast<int>(time / (kStep * kSlow));
      const int fast = static_cast<int>(time / kStep);
      ASSERT_EQ(server.step(0), slow);
      const int limit = std::min({fast, slow + kStaleness + 1, kSteps});
      EXPECT_LE(server.step(1), limit);
      EXPECT_GE(server.step(1), limit - 1);  // the last one may be under way
      ++looked;
    });
  }
  server.Run();
  EXPECT_TRUE(server.complete());
  EXPECT_EQ(looked, 179);
}

// Changes go to the owners and values come from them, 2 n (P-1) / P per rank, and each owner sends
// a number to every other rank.
TEST(ArrivalSim, SendsTheBytesOfTheFormula) {
  for (const ServerSettings& server_settings : {kArrival, kClock})
    for (const int ranks : {2, 4, 16})
      for (const int staleness : {0, 2}) {
        SimNetwork network(ranks);
        SimStaleServer server({.ranks = ranks,
                               .staleness = staleness,
                               .steps = 3,
                               .server = server_settings,
                               .counts = {64, 320},
                               .bucket_bytes = 1},
                              network);
        server.Run();
        ASSERT_TRUE(server.complete());
        const int64_t numbers = server_settings == kArrival ? 2 * (ranks - 1) : 0;  // 2 buckets
        for (int r = 0; r < ranks; ++r)
          EXPECT_EQ(server.bytes_sent(r), 3 * 4 * (2 * 384 * (ranks - 1) / ranks + numbers));
      }
}

// With updates on arrival every rank has a transfer for every other: a million for 1,024 ranks.
TEST(ArrivalSim, AThousandRanksCompleteTheirSteps) {
  for (const ServerSettings& server_settings : {kArrival, kClock}) {
    constexpr int kOwners = 1, kSteps = 2;  // one element, which one rank owns
    const bool few = server_settings == kArrival && Schedules() <= kFewSchedules;
    const int ranks = few ? 128 : 1024;
    SimNetwork network(ranks);
    SimStaleServer server(
        {.ranks = ranks, .steps = kSteps, .server = server_settings, .counts = {kOwners}}, network);
    server.Run();
    ASSERT_TRUE(server.complete());
    server.ExpectAllUpdatesOnce();
    int64_t bytes = 0;
    for (int r = 0; r < ranks; ++r) bytes += server.bytes_sent(r);
    const int64_t messages = server_settings == kArrival ? 3 : 2;  // of one element
    EXPECT_EQ(bytes, kSteps * 4 * messages * kOwners * (ranks - 1));
  }
}

// Any rank, at any moment of the run.
TEST(ArrivalSim, WhenARankDiesEveryOtherFinishesFailsOrWaitsForANamedRank) {
  int died_in_time = 0;
  for (uint64_t i = 0; i < kFewSchedules; ++i) {
    const uint64_t seed = i * kStride;
    const SimStaleSetup setup = SetupOf(seed);
    double end = 0;
    {
      SimNetwork undisturbed(setup.ranks, NetworkOf(seed));
      undisturbed.Watch([&](int, int, int, size_t) { end = undisturbed.now(); });
      SimStaleServer server(setup, undisturbed);
      server.Run();
      ASSERT_TRUE(server.complete());
    }
    std::mt19937_64 random(seed);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(setup.ranks));
    const double moment = std::uniform_real_distribution<>(0, end)(random);
    SCOPED_TRACE(fmt::format("seed {}: rank {} of {} dies after {} of {} s", seed, victim,
                             setup.ranks, moment, end));
    SimNetwork network(setup.ranks, NetworkOf(seed));
    SimStaleServer server(setup, network);
    network.At(moment, victim, [&] { network.Kill(victim); });
    server.Run();
    ASSERT_TRUE(network.dead(victim));
    ASSERT_LE(server.largest_gap(), setup.staleness);
    if (server.finished(victim)) continue;
    ++died_in_time;
    EXPECT_FALSE(server.complete());
    for (int r = 0; r < setup.ranks; ++r) {
      if (r == victim) continue;
      if (server.error(r)) {
        EXPECT_THAT(*server.error(r), ::testing::HasSubstr(fmt::format("rank {} is lost", victim)));
      } else {
        EXPECT_FALSE(server.WaitsFor(r).empty()) << "rank " << r << " waits for nobody";
      }
    }
  }
  EXPECT_GT(died_in_time, 30) << "or the moments are not those of the run";
}

// ---- Managed bandwidth ----

struct Traffic {
  double seconds = 0;           // until the last message
  std::vector<double> bytes;    // by rank
  std::vector<double> busiest;  // by rank: bytes in the busiest window
};

// The messages of a run whose steps take no time, so that the limit is all that holds it up.
Traffic Watch(const SimStaleSetup& setup, double window) {
  SimNetwork network(setup.ranks);
  Traffic traffic{.bytes = std::vector<double>(static_cast<size_t>(setup.ranks)),
                  .busiest = std::vector<double>(static_cast<size_t>(setup.ranks))};
  std::vector<std::deque<std::pair<double, double>>> recent(static_cast<size_t>(setup.ranks));
  network.Watch([&](int from, int, int, size_t bytes) {
    auto& mine = At(recent, from);
    mine.emplace_back(network.now(), bytes);
    while (mine.front().first < network.now() - window) mine.pop_front();
    double sum = 0;
    for (const auto& [time, size] : mine) sum += size;
    At(traffic.busiest, from) = std::max(At(traffic.busiest, from), sum);
    At(traffic.bytes, from) += static_cast<double>(bytes);
    traffic.seconds = network.now();
  });
  SimStaleServer server(setup, network);
  server.Run();
  EXPECT_TRUE(server.complete());
  server.ExpectAllUpdatesOnce();
  return traffic;
}

TEST(ManagedBandwidth, StaysUnderTheLimitOfEveryRankAndUsesIt) {
  constexpr double kLimit = 1e6;  // bytes per second
  for (const bool arrival : {false, true})
    for (const SendOrder order : {SendOrder::kFifo, SendOrder::kRelativeMagnitude}) {
      ServerSettings server_settings = arrival ? kArrival : kClock;
      server_settings.consistency = Consistency::kManaged;
      server_settings.order = order;
      const SimStaleSetup setup{.ranks = 4,
                                .staleness = 2,
                                .steps = 8,
                                .server = server_settings,
                                .counts = {5000, 1000, 3000},
                                .message_bytes = 1000,
                                .slow = 1,
                                .random = false,
                                .step_seconds = 1e-6,
                                .bytes_per_second = kLimit};
      constexpr double kWindow = 0.05;
      const Traffic limited = Watch(setup, kWindow);
      for (int r = 0; r < setup.ranks; ++r) {
        EXPECT_LE(At(limited.busiest, r), 1.05 * kLimit * kWindow) << "rank " << r;
        EXPECT_LE(At(limited.bytes, r), 1.05 * kLimit * limited.seconds);
        EXPECT_GE(At(limited.bytes, r), 0.8 * kLimit * limited.seconds) << "the line is idle";
      }
      SimStaleSetup unlimited = setup;
      unlimited.bytes_per_second = 0;
      EXPECT_GT(Watch(unlimited, kWindow).busiest[0], 2 * kLimit * kWindow)
          << "or there is nothing to limit";
    }
}

// Rank 1 is sent updates of three parameters, of which it owns the second half each.
std::vector<int> ArrivalOrder(SendOrder order) {
  const std::vector<float> sizes = {1, 100, 10};
  ServerSettings server_settings = kArrival;
  server_settings.consistency = Consistency::kManaged;
  server_settings.order = order;
  SimNetwork network(2);
  SimStaleServer server({.ranks = 2,
                         .steps = 1,
                         .server = server_settings,
                         .counts = {50, 50, 50},
                         .bucket_bytes = 1,
                         .bytes_per_second = 1e5,
                         .size = [&](int, int param) { return At(sizes, param); }},
                        network);
  server.Run();
  std::vector<int> params;
  for (const int transfer : server.order(1))
    if (transfer < 6 && transfer % 2 == 0)  // of rank 0; one slot, three buckets
      params.push_back(At(server.shards(1).buckets(), transfer / 2).params.front().param);
  return params;
}

TEST(ManagedBandwidth, SendsTheLargestUpdatesFirstIfAskedTo) {
  using ::testing::ElementsAre;
  EXPECT_THAT(ArrivalOrder(SendOrder::kFifo), ElementsAre(2, 1, 0)) << "as the backward pass ends";
  EXPECT_THAT(ArrivalOrder(SendOrder::kRelativeMagnitude), ElementsAre(1, 2, 0));
  EXPECT_THAT(ArrivalOrder(SendOrder::kFifoThenMagnitude), ElementsAre(1, 2, 0));
  EXPECT_THAT(ArrivalOrder(SendOrder::kRandom), ::testing::UnorderedElementsAre(0, 1, 2));
}

TEST(ManagedBandwidth, OrdersByMagnitudeRelativeToTheValuesAndByClock) {
  const std::vector<float> small = {1, 0}, large = {0, 3}, value = {10, 0}, zero = {0, 0};
  const auto priority = [&](SendOrder order, int64_t clock, const std::vector<float>& update,
                            const std::vector<float>& of) {
    return SendPriority<float>(order, clock, update.data(), of.data(), 2, /*random=*/7);
  };
  constexpr auto kRelative = SendOrder::kRelativeMagnitude, kBoth = SendOrder::kFifoThenMagnitude;
  EXPECT_LT(priority(kRelative, 5, large, value), priority(kRelative, 1, small, value));
  EXPECT_LT(priority(kRelative, 5, small, small), priority(kRelative, 5, large, value));
  EXPECT_LT(priority(kRelative, 5, small, zero), priority(kRelative, 5, small, value));
  EXPECT_LT(priority(kRelative, 5, small, value), priority(kRelative, 5, zero, value));
  EXPECT_LT(priority(kRelative, 5, {NAN, 0}, value), priority(kRelative, 5, large, value));
  EXPECT_LT(priority(kBoth, 1, small, value), priority(kBoth, 5, large, value));
  EXPECT_LT(priority(kBoth, 5, large, value), priority(kBoth, 5, small, value));
  EXPECT_EQ(priority(SendOrder::kFifo, 1, small, value),
            priority(SendOrder::kFifo, 5, large, value));
  for (const SendOrder order : {SendOrder::kFifo, SendOrder::kRandom, kRelative, kBoth})
    EXPECT_LE(ValuePriority(order, 5), priority(order, 5, large, value));
}

}  // namespace
}  // namespace carafe
