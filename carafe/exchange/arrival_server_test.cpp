// The stale server with --server_update=arrival, with ranks as threads. arrival_sim_test.cpp runs
// its shards in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/error_text.h"
#include "tests/support/param_arena.h"
#include "tests/support/stale_replay.h"

namespace carafe {
namespace {

constexpr ServerSettings kArrival{.update = ServerUpdate::kArrival};

struct Settings {
  int ranks = 2;
  int staleness = 0;
  int steps = 5;
  ServerSettings server = kArrival;
  const char* exchange = "ssp";
  bool overlap = true;
  size_t bucket_bytes = 256;
  std::function<void(int rank, int step)> before_step = {};
};

// The rule on one parameter, with the mean gradient as a solver's updater makes it.
void Rule(int ranks, int64_t count, float* value, float* gradient, float* velocity) {
  for (int64_t i = 0; i < count; ++i) gradient[i] /= static_cast<float>(ranks);
  StaleRule(count, value, gradient, velocity);
}

// The values of all ranks after the last step, which are the same.
StaleValues Train(const Settings& settings) {
  const int ranks = settings.ranks;
  const bool synchronous = settings.exchange != std::string("ssp");
  const std::vector<int64_t>& counts = StaleCounts();
  std::vector<StaleValues> trained(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Group& group) {
    const int rank = group.rank();
    Arena<float> arena(counts);
    StaleValues& values = At(trained, rank);
    StaleValues velocity;
    for (const int64_t count : counts) {
      values.emplace_back(static_cast<size_t>(count), 1.f);
      velocity.emplace_back(static_cast<size_t>(count));
    }
    for (int p = 0; p < Count(counts); ++p) At(arena.params, p).value = At(values, p).data();
    const auto exchange = MakeExchange<float>(
        settings.exchange, {.group = group,
                            .params = arena.params,
                            .update =
                                [&](int p, Stream&) {
                                  const ParamInfo<float>& param = At(arena.params, p);
                                  Rule(ranks, param.count, param.value, param.gradient,
                                       At(velocity, p).data());
                                },
                            .update_shard =
                                [&](const ShardUpdate<float>& u, Stream&) {
                                  Rule(ranks, u.shard.count, u.value, u.gradient, u.history[0]);
                                },
                            .history_slots = 1,
                            .staleness = settings.staleness,
                            .server = synchronous ? ServerSettings{} : settings.server,
                            .bucket_bytes = settings.bucket_bytes,
                            .overlap = settings.overlap});
    Stream stream;
    for (int step = 0; step < settings.steps; ++step) {
      if (settings.before_step) settings.before_step(rank, step);
      for (int p = 0; p < Count(counts); ++p) exchange->AwaitValue(0, p, stream);
      exchange->Vote({.weight = 1});
      for (int p = Count(counts); p-- > 0;) {
        const ParamInfo<float>& param = At(arena.params, p);
        EXPECT_GE(exchange->clock(p), step - settings.staleness);
        for (int64_t i = 0; i < param.count; ++i)
          param.gradient[i] =
              static_cast<float>((rank * 5 + step * 3 + p + i) % 7) / 8 + param.value[i] / 16;
        exchange->GradientReady(0, p, stream);
      }
      exchange->FinishStep();
      exchange->AwaitVerdict();
    }
    exchange->Drain(0, stream);
    EXPECT_EQ(exchange->clock(0), settings.steps);
  });
  for (const StaleValues& values : trained) EXPECT_EQ(values, trained[0]) << "replicas";
  return trained[0];
}

void ExpectNear(const StaleValues& found, const StaleValues& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t p = 0; p < found.size(); ++p)
    for (size_t i = 0; i < found[p].size(); ++i)
      ASSERT_NEAR(found[p][i], expected[p][i], tolerance) << "parameter " << p << ", element " << i;
}

// The rule is linear, so that the mean of the ranks' changes is the change by the mean gradient.
TEST(ArrivalServer, WithoutStalenessALinearRuleTrainsAsByAllreduce) {
  for (const int ranks : {2, 3, 4}) {
    const StaleValues expected = Train({.ranks = ranks, .exchange = "allreduce"});
    for (const bool overlap : {true, false})
      for (const size_t bucket_bytes : {size_t{1}, size_t{4} << 20})
        ExpectNear(Train({.ranks = ranks, .overlap = overlap, .bucket_bytes = bucket_bytes}),
                   expected, 1e-5f);
  }
}

TEST(ArrivalServer, SumsInsteadOfMeansMultiplyTheChangeByTheRanks) {
  constexpr int kRanks = 3;
  const StaleValues mean = Train({.ranks = kRanks, .steps = 1});
  ServerSettings sum = kArrival;
  sum.combine = Combine::kSum;
  StaleValues expected = mean;
  for (std::vector<float>& values : expected)
    for (float& value : values) value = 1 + kRanks * (value - 1);
  ExpectNear(Train({.ranks = kRanks, .steps = 1, .server = sum}), expected, 1e-5f);
}

TEST(ArrivalServer, ReplicasAreEqualAfterDrainWithAnyStaleness) {
  for (const int staleness : {1, 3, 20}) Train({.ranks = 3, .staleness = staleness, .steps = 12});
}

TEST(ArrivalServer, TrainsWithinABandwidth) {
  for (const SendOrder order : {SendOrder::kFifo, SendOrder::kRandom, SendOrder::kRelativeMagnitude,
                                SendOrder::kFifoThenMagnitude})
    for (const ServerUpdate update : {ServerUpdate::kClock, ServerUpdate::kArrival}) {
      const ServerSettings managed{.update = update,
                                   .consistency = Consistency::kManaged,
                                   .order = order,
                                   .bandwidth_mbps = 50};
      const StaleValues expected = Train({.ranks = 3, .exchange = "allreduce"});
      ExpectNear(Train({.ranks = 3, .server = managed}), expected, 1e-5f);
      Train({.ranks = 3, .staleness = 2, .server = managed});
    }
}

// Rank 1 is held up in its first step until rank 0 has begun step s, and reads its own updates.
TEST(ArrivalServer, ARankSeesItsOwnUpdatesAtOnce) {
  constexpr int kStaleness = 2;
  std::atomic<int> begun{0};  // steps of rank 0
  std::vector<float> read;    // by rank 0, in the last of them
  RunRanks(2, [&](Group& group) {
    Arena<float> arena({5});
    std::vector<float> value(5, 1);
    arena.params[0].value = value.data();
    const auto exchange =
        MakeExchange<float>("ssp", {.group = group,
                                    .params = arena.params,
                                    .update = {},
                                    .update_shard =
                                        [](const ShardUpdate<float>& u, Stream&) {
                                          for (int64_t i = 0; i < u.shard.count; ++i) {
                                            u.value[i] += u.gradient[i];
                                            u.gradient[i] = 0;
                                          }
                                        },
                                    .staleness = kStaleness,
                                    .server = kArrival});
    Stream stream;
    for (int step = 0; step < 4; ++step) {
      if (group.rank() == 1 && step == 0)
        while (begun <= kStaleness) std::this_thread::yield();
      exchange->AwaitValue(0, 0, stream);
      if (group.rank() == 0) {
        if (step == kStaleness) read = value;
        ++begun;
      }
      exchange->Vote({});
      std::fill_n(arena.params[0].gradient, 5, 1.f);
      exchange->GradientReady(0, 0, stream);
      exchange->FinishStep();
      exchange->AwaitVerdict();
    }
    exchange->Drain(0, stream);
    EXPECT_THAT(value, ::testing::Each(1.f + 4 * 2));  // a mean over 2 ranks of twice the gradient
  });
  EXPECT_THAT(read, ::testing::Each(1.f + kStaleness));
}

TEST(ArrivalServer, TakesValuesThatWereChangedAfterDrain) {
  for (const int staleness : {0, 2})
    RunRanks(4, [&](Group& group) {
      Arena<float> arena({7, 6});
      std::vector<float> value(13, 1);
      arena.params[0].value = value.data();
      arena.params[1].value = value.data() + 7;
      const auto exchange =
          MakeExchange<float>("ssp", {.group = group,
                                      .params = arena.params,
                                      .update = {},
                                      .update_shard =
                                          [](const ShardUpdate<float>& u, Stream&) {
                                            for (int64_t i = 0; i < u.shard.count; ++i) {
                                              u.value[i] += u.gradient[i];
                                              u.gradient[i] = 0;
                                            }
                                          },
                                      .staleness = staleness,
                                      .server = kArrival});
      Stream stream;
      const auto step = [&] {
        exchange->FinishReads(0, stream);
        exchange->Vote({});
        std::ranges::fill(arena.memory, 1.f);
        for (const int p : {1, 0}) exchange->GradientReady(0, p, stream);
        exchange->FinishStep();
        exchange->AwaitVerdict();
      };
      float expected = 1;
      for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 3; ++i) step();
        exchange->Drain(0, stream);
        exchange->TakeVerdicts();
        EXPECT_THAT(value, ::testing::Each(expected + 3 * 4));
        expected = static_cast<float>(100 + round);
        std::ranges::fill(value, expected);
      }
    });
}

TEST(ArrivalServer, KeepsAHistoryOfItsOwnOnEveryRank) {
  RunRanks(3, [&](Group& group) {
    Arena<float> arena(StaleCounts());
    std::vector<float> values(1000);
    for (ParamInfo<float>& param : arena.params) param.value = values.data();
    const auto exchange = MakeExchange<float>("ssp", {.group = group,
                                                      .params = arena.params,
                                                      .update = {},
                                                      .history_slots = 2,
                                                      .server = kArrival});
    EXPECT_TRUE(exchange->every_rank_has_history());
    EXPECT_EQ(exchange->state().size(), 2 * StaleCounts().size());
    for (const StateTensor<float>& tensor : exchange->state()) {
      ASSERT_TRUE(tensor.history.has_value());
      EXPECT_EQ(tensor.history->shard.first, 0);
      EXPECT_EQ(tensor.count, At(StaleCounts(), tensor.history->param));
    }
  });
}

TEST(ArrivalServer, ARankThatFailsEndsTheOthers) {
  for (const int staleness : {0, 2}) {
    const Settings settings{
        .ranks = 3, .staleness = staleness, .steps = 20, .before_step = [&](int rank, int step) {
          if (rank == 2 && step == 5)
            throw DataError("train_lmdb", 17, "it is damaged", "repair it");
        }};
    EXPECT_THAT(ErrorText<DataError>([&] { Train(settings); }),
                ::testing::HasSubstr("train_lmdb: record 17"));
  }
}

TEST(ArrivalServer, RefusesWhatItCannotDo) {
  for (const int ranks : {1, 2})
    RunRanks(ranks, [](Group& group) {
      Arena<float> arena({3});
      const auto refused = [&](const char* exchange, const ServerSettings& server, bool clips,
                               const char* words) {
        EXPECT_THAT(ErrorText<ConfigError>([&] {
                      MakeExchange<float>(exchange, {.group = group,
                                                     .params = arena.params,
                                                     .update = {},
                                                     .server = server,
                                                     .update_needs_all = clips});
                    }),
                    ::testing::HasSubstr(words));
      };
      refused("ssp", kArrival, true, "clip_gradients bounds the norm of the mean gradient");
      refused("ssp", {.combine = Combine::kSum}, false, "--combine=sum adds the updates of ranks");
      refused("ssp", {.bandwidth_mbps = 10}, false, "manage what --consistency=sspaggr sends");
      refused("ssp", {.order = SendOrder::kRandom}, false, "--consistency=sspaggr sends");
      refused("allreduce", kArrival, false, "are for --exchange=ssp, not for allreduce");
      refused("tree", {.consistency = Consistency::kManaged}, false, "not for tree");
    });
}

}  // namespace
}  // namespace carafe
