// The shards of the stale server on engines in virtual time: random schedules against a serial
// replay, a rank that is always slow, and ranks that die. CARAFE_SIM_SCHEDULES=10000 runs more
// schedules than the 300 of every day.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/shards.h"
#include "tests/support/param_arena.h"
#include "tests/support/stale_replay.h"

namespace carafe {
namespace {

struct SimSetup {
  int ranks = 3;
  int staleness = 0;
  int steps = 10;
  uint64_t seed = 1;
  bool norms = false;
  double slow = 5;     // rank 0 takes so many times as long as the others
  bool random = true;  // steps take 1 to 8 times as long
  size_t bucket_bytes = 256;
};

class SimServer {
 public:
  SimServer(const SimSetup& setup, SimNetwork& network)
      : setup_(setup),
        random_(setup.seed),
        network_(network),
        ranks_(static_cast<size_t>(setup.ranks)),
        clocks_(static_cast<size_t>(setup.ranks)) {
    for (int r = 0; r < setup.ranks; ++r) {
      Rank& rank = At(ranks_, r);
      const Arena<float> arena(StaleCounts());
      const Plan plan = MakePlan<float>(arena.params, setup.bucket_bytes);
      bucket_of_ = plan.bucket_of;
      rank.shards = std::make_unique<Shards<float>>(
          ShardSettings{.rank = r,
                        .size = setup.ranks,
                        .staleness = setup.staleness,
                        .history_slots = 1,
                        .norms = setup.norms,
                        .message_bytes = 200},
          LayOutShards<float>(plan, arena.params, setup.ranks,
                              setup.norms ? ShardCut::kNormBlocks : ShardCut::kElements),
          arena.params, StaleRuleOnShard);
      rank.engine = std::make_unique<Engine>(r, setup.ranks, ElementsOf<float>(),
                                             rank.shards->transfers(), ChannelTags{100, 1000});
      rank.complete.resize(rank.shards->transfers().size());
      rank.known.resize(plan.buckets.size());
      for (const int64_t count : StaleCounts())
        rank.values.emplace_back(static_cast<size_t>(count));
      network_.At(0, r, [] {});
    }
  }
  void Run() {
    network_.Run([this](int r) { Wake(r); });
  }
  const StaleClocks& clocks() const { return clocks_; }
  bool finished(int r) const { return At(ranks_, r).step == setup_.steps; }
  bool complete() {
    for (Rank& rank : ranks_)
      for (int b = 0; b < Count(rank.known); ++b)
        if (Newest(rank, b) != setup_.steps) return false;
    return true;
  }
  std::optional<std::string> error(int r) const { return At(ranks_, r).error; }
  std::vector<int> WaitsFor(int r) const { return At(ranks_, r).engine->WaitsFor(); }
  int64_t largest_gap() const { return largest_gap_; }
  int step(int r) const { return At(ranks_, r).step; }  // announced
  int64_t bytes_sent() const {
    int64_t bytes = 0;
    for (const Rank& rank : ranks_) bytes += rank.engine->bytes_sent();
    return bytes;
  }
  // Reads the last values of every rank.
  void ExpectValues(const StaleValues& expected) {
    for (Rank& rank : ranks_) {
      ASSERT_EQ(rank.step, setup_.steps) << "did not finish";
      for (int p = 0; p < Count(StaleCounts()); ++p) {
        ASSERT_EQ(Read(rank, p), setup_.steps);
        ASSERT_EQ(At(rank.values, p), At(expected, p));
      }
    }
  }

 private:
  struct Rank {
    std::unique_ptr<Shards<float>> shards;
    std::unique_ptr<Engine> engine;
    std::vector<int64_t> complete;  // steps, by transfer
    std::vector<int64_t> known;     // by bucket: the newest clock at the last look
    StaleValues values;
    int step = 0;  // announced
    bool computing = false;
    bool moved = false;
    std::optional<std::string> error;
  };
  static Shards<float>::Transfers TransfersOf(Rank& rank) {
    return {.steps = [&rank](int transfer) { return At(rank.complete, transfer); },
            .start =
                [&rank](int transfer) {
                  rank.engine->OnReady(transfer);
                  rank.moved = true;
                }};
  }
  static int64_t Newest(Rank& rank, int b) {
    return At(rank.known, b) = rank.shards->ValueClock(b, At(rank.known, b), TransfersOf(rank));
  }
  // Copies the newest values of a parameter; returns their clock.
  int64_t Read(Rank& rank, int p) {
    const int b = At(bucket_of_, p);
    const int64_t clock = Newest(rank, b);
    for (const PlacedParam& placed : At(rank.shards->buckets(), b).params)
      if (placed.param == p)
        std::copy_n(rank.shards->values(clock, b) + placed.offset, placed.count,
                    At(rank.values, p).begin());
    return clock;
  }

  void Wake(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.error || network_.dead(r)) return;
    try {
      do {
        rank.moved = rank.engine->Poll(network_.transport(r));
        for (const int transfer : rank.engine->TakeComplete()) {
          ++At(rank.complete, transfer);
          rank.moved = true;
        }
        rank.shards->Advance(TransfersOf(rank));
        rank.moved |= TryStep(r);
      } while (rank.moved);
    } catch (const Error& error) {
      rank.error = error.what();
    }
  }
  // Reads and computes, if every value is new enough.
  bool TryStep(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.computing || rank.step == setup_.steps) return false;
    for (int b = 0; b < Count(rank.known); ++b)
      if (Newest(rank, b) < rank.step - setup_.staleness) return false;
    std::vector<int64_t>& clocks = At(clocks_, r).emplace_back();
    for (int p = 0; p < Count(StaleCounts()); ++p) clocks.push_back(Read(rank, p));
    for (const Rank& other : ranks_)
      largest_gap_ = std::max<int64_t>(largest_gap_, rank.step - other.step);
    rank.computing = true;
    const double factor = setup_.random ? static_cast<double>(1 + random_() % 8) : 1;
    const double seconds = 1e-4 * (r == 0 ? setup_.slow : 1) * factor;
    network_.At(network_.now() + seconds, r, [this, r] { Announce(r); });
    return true;
  }
  void Announce(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.error || network_.dead(r)) return;
    for (int b = 0; b < Count(rank.known); ++b) {
      float* gradient = rank.shards->gradient(rank.step, b);
      for (const PlacedParam& placed : At(rank.shards->buckets(), b).params)
        for (int64_t i = 0; i < placed.count; ++i)
          gradient[placed.offset + i] =
              StaleGradient(r, rank.step, placed.param, i, At(At(rank.values, placed.param), i));
      rank.engine->OnReady(rank.shards->SumOf(rank.step, b));
    }
    ++rank.step;
    rank.computing = false;
  }

  const SimSetup setup_;
  std::mt19937_64 random_;
  SimNetwork& network_;
  std::vector<int> bucket_of_;
  std::vector<Rank> ranks_;
  StaleClocks clocks_;
  int64_t largest_gap_ = 0;  // steps that a rank was ahead of another when it began one
};

SimSetup SetupOf(uint64_t seed) {
  return {.ranks = 2 + static_cast<int>(seed % 4),
          .staleness = static_cast<int>(seed / 4 % 4),
          .seed = seed,
          .norms = seed / 16 % 2 == 1,
          .bucket_bytes = seed / 32 % 2 == 1 ? size_t{1} << 20 : 256};
}
SimOptions NetworkOf(uint64_t seed) { return {.jitter = seed % 2 ? 1e-3 : 1e-5, .seed = seed}; }

TEST(StaleServerSim, HasTheBitsOfASerialReplayUnderAnySchedule) {
  const char* asked = std::getenv("CARAFE_SIM_SCHEDULES");
  const uint64_t schedules = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 300;
  uint64_t stale = 0;  // reads of a value that lacks updates
  for (uint64_t seed = 0; seed < schedules; ++seed) {
    const SimSetup setup = SetupOf(seed);
    SCOPED_TRACE(fmt::format("seed {}: {} ranks, staleness {}, norms {}", seed, setup.ranks,
                             setup.staleness, setup.norms));
    SimNetwork network(setup.ranks, NetworkOf(seed));
    SimServer server(setup, network);
    server.Run();
    ExpectClocksWithin(server.clocks(), setup.staleness);
    server.ExpectValues(ReplayClocks(server.clocks()));
    for (const auto& rank : server.clocks())
      for (size_t t = 0; t < rank.size(); ++t) stale += rank[t][0] < static_cast<int64_t>(t);
  }
  EXPECT_GT(stale, 4 * schedules) << "or the schedules are too tame";
}

// Rank 0 takes five times as long as the others, which end up s steps ahead, and no more.
TEST(StaleServerSim, OthersAreAheadOfASlowRankByTheStaleness) {
  for (const int staleness : {0, 1, 3, 10}) {
    SimNetwork network(4);
    SimServer server({.ranks = 4, .staleness = staleness, .steps = 40, .random = false}, network);
    server.Run();
    EXPECT_TRUE(server.complete());
    EXPECT_EQ(server.largest_gap(), staleness);
  }
}

// After t seconds a fast rank has made min(fast * t, slow * t + s) steps: it is limited by its own
// speed until it is s steps ahead, and by the slow rank from then on.
TEST(StaleServerSim, FastRanksGoAtTheirOwnSpeedUntilTheyAreAheadByTheStaleness) {
  constexpr int kStaleness = 8, kSteps = 40;
  constexpr double kStep = 1e-4, kSlow = 5;
  SimNetwork network(3, {.latency = 1e-7, .overhead = 1e-9});
  SimServer server({.ranks = 3, .staleness = kStaleness, .steps = kSteps, .random = false},
                   network);
  int looked = 0;
  for (int k = 1; k < 180; ++k) {
    const double time = (k + 0.5) * kStep;  // between two steps of the fast ranks
    network.At(time, 1, [&server, &looked, time] {
      const int slow = static_cast<int>(time / (kStep * kSlow));
      const int fast = static_cast<int>(time / kStep);
      ASSERT_EQ(server.step(0), slow);
      // A step that began when the slow rank had ended its last one is still under way.
      const int limit = std::min({fast, slow + kStaleness + 1, kSteps});
      EXPECT_LE(server.step(1), limit);
      EXPECT_GE(server.step(1), limit - 1);
      ++looked;
    });
  }
  server.Run();
  EXPECT_TRUE(server.complete());
  EXPECT_EQ(looked, 179);
}

// Every gradient goes to the owners, and every value from them: 2 n (P-1) / P per rank.
TEST(StaleServerSim, SendsTheBytesOfTheFormula) {
  int64_t elements = 0;
  for (const int64_t count : StaleCounts()) elements += count;
  for (const int ranks : {2, 3, 7, 16})
    for (const int staleness : {0, 2}) {
      SimNetwork network(ranks);
      SimServer server({.ranks = ranks, .staleness = staleness, .steps = 3}, network);
      server.Run();
      EXPECT_TRUE(server.complete());
      EXPECT_EQ(server.bytes_sent(),
                3 * 2 * elements * (ranks - 1) * static_cast<int64_t>(sizeof(float)))
          << ranks << " ranks";
    }
}

// Any rank, at any moment of the run.
TEST(StaleServerSim, WhenARankDiesEveryOtherFinishesFailsOrWaitsForANamedRank) {
  int died_in_time = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const SimSetup setup = SetupOf(seed);
    SimNetwork undisturbed(setup.ranks, NetworkOf(seed));
    double end = 0;
    {
      SimServer server(setup, undisturbed);
      undisturbed.Watch([&](int, int, int, size_t) { end = undisturbed.now(); });
      server.Run();
      ASSERT_TRUE(server.complete());
    }
    std::mt19937_64 random(seed);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(setup.ranks));
    const double moment = std::uniform_real_distribution<>(0, end)(random);
    SCOPED_TRACE(fmt::format("seed {}: rank {} of {} dies after {} of {} s", seed, victim,
                             setup.ranks, moment, end));
    SimNetwork network(setup.ranks, NetworkOf(seed));
    SimServer server(setup, network);
    network.At(moment, victim, [&] { network.Kill(victim); });
    server.Run();
    ASSERT_TRUE(network.dead(victim));
    ExpectClocksWithin(server.clocks(), setup.staleness);
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
  EXPECT_GT(died_in_time, 200) << "or the moments are not those of the run";
}

}  // namespace
}  // namespace carafe
