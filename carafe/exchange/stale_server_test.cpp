// The stale server with ranks as threads: without staleness it has the bits of allreduce, with it
// those of a serial replay of the clocks that were read. stale_server_sim_test.cpp runs the same
// shards in virtual time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/shard_layout.h"
#include "carafe/kernels/math.h"
#include "tests/support/error_text.h"
#include "tests/support/param_arena.h"
#include "tests/support/stale_replay.h"

namespace carafe {
namespace {

struct Trained {
  std::vector<StaleValues> values;  // by rank
  StaleClocks clocks;
  std::vector<std::vector<int64_t>> seen;  // by rank: Exchange::staleness_seen
};

struct Settings {
  const char* exchange = "ssp";
  int ranks = 2;
  int staleness = 0;
  int steps = 5;
  size_t bucket_bytes = size_t{4} << 20;
  bool overlap = true;
  size_t message_bytes = 0;
  std::function<void(int rank, int step)> before_step = {};  // may hold a rank up
  std::function<void(int rank, int step)> after_step = {};
};

Trained Train(const Settings& settings) {
  const int ranks = settings.ranks;
  const std::vector<int64_t>& counts = StaleCounts();
  Trained trained{.values = std::vector<StaleValues>(static_cast<size_t>(ranks)),
                  .clocks = StaleClocks(static_cast<size_t>(ranks)),
                  .seen = std::vector<std::vector<int64_t>>(static_cast<size_t>(ranks))};
  RunRanks(ranks, [&](Group& group) {
    const int rank = group.rank();
    Arena<float> arena(counts);
    StaleValues& values = At(trained.values, rank);
    StaleValues velocity;
    for (const int64_t count : counts) {
      values.emplace_back(static_cast<size_t>(count));
      velocity.emplace_back(static_cast<size_t>(count));
    }
    for (int p = 0; p < Count(counts); ++p) At(arena.params, p).value = At(values, p).data();
    const auto exchange = MakeExchange<float>(
        settings.exchange,
        {.group = group,
         .params = arena.params,
         .update =
             [&](int p, Stream&) {
               const ParamInfo<float>& param = At(arena.params, p);
               StaleRule(param.count, param.value, param.gradient, At(velocity, p).data());
             },
         .update_shard = [](const ShardUpdate<float>& u, Stream&) { StaleRuleOnShard(u); },
         .history_slots = 1,
         .staleness = settings.staleness,
         .bucket_bytes = settings.bucket_bytes,
         .overlap = settings.overlap,
         .scheme = {.message_bytes = settings.message_bytes}});
    Stream stream;
    for (int step = 0; step < settings.steps; ++step) {
      if (settings.before_step) settings.before_step(rank, step);
      std::vector<int64_t>& clocks = At(trained.clocks, rank).emplace_back();
      for (int p = 0; p < Count(counts); ++p) {
        exchange->AwaitValue(0, p, stream);
        clocks.push_back(exchange->clock(p));
      }
      exchange->Vote({.weight = 1});
      for (int p = Count(counts); p-- > 0;) {
        const ParamInfo<float>& param = At(arena.params, p);
        for (int64_t i = 0; i < param.count; ++i)
          param.gradient[i] = StaleGradient(rank, step, p, i, param.value[i]);
        exchange->GradientReady(0, p, stream);
      }
      exchange->FinishStep();
      if (settings.after_step) settings.after_step(rank, step);
      EXPECT_EQ(exchange->AwaitVerdict().weight, step < settings.staleness ? 0 : ranks);
    }
    exchange->Drain(0, stream);
    EXPECT_EQ(exchange->clock(0), settings.steps);
    At(trained.seen, rank) = exchange->staleness_seen();
    const std::vector<StepVotes> late = exchange->TakeVerdicts();
    EXPECT_EQ(Count(late), std::min(settings.staleness, settings.steps));
    for (const StepVotes& votes : late) EXPECT_EQ(votes.weight, ranks);
  });
  for (const StaleValues& values : trained.values)
    EXPECT_EQ(values, trained.values[0]) << "replicas";
  return trained;
}

TEST(StaleServer, WithoutStalenessHasTheBitsOfAllreduce) {
  for (const int ranks : {2, 3, 4, 7}) {
    const Trained expected = Train({.exchange = "allreduce", .ranks = ranks});
    for (const size_t bucket_bytes : {size_t{1}, size_t{256}, size_t{4} << 20})
      for (const bool overlap : {true, false}) {
        SCOPED_TRACE(fmt::format("{} ranks, buckets of {} bytes", ranks, bucket_bytes));
        const Trained server = Train({.ranks = ranks,
                                      .bucket_bytes = bucket_bytes,
                                      .overlap = overlap,
                                      .message_bytes = 100});
        EXPECT_EQ(server.values[0], expected.values[0]);
        EXPECT_EQ(server.clocks, expected.clocks) << "every value has the clock of its step";
        EXPECT_EQ(server.values[0], ReplayClocks(server.clocks));
      }
  }
}

TEST(StaleServer, HasTheBitsOfASerialReplayOfItsClocks) {
  for (const int ranks : {2, 4})
    for (const int staleness : {1, 3})
      for (const size_t bucket_bytes : {size_t{1}, size_t{4} << 20}) {
        const Trained server = Train(
            {.ranks = ranks, .staleness = staleness, .steps = 12, .bucket_bytes = bucket_bytes});
        ExpectClocksWithin(server.clocks, staleness);
        EXPECT_EQ(server.values[0], ReplayClocks(server.clocks))
            << ranks << " ranks, s " << staleness;
      }
}

// The last rank begins when all others have announced the gradients of s + 1 steps, which they
// must be able to do without it, and no more.
TEST(StaleServer, LetsOthersRunAheadOfASlowRankByTheStaleness) {
  for (const int staleness : {0, 1, 3}) {
    constexpr int kRanks = 3;
    std::vector<std::atomic<int>> announced(kRanks);  // steps
    const Trained server =
        Train({.ranks = kRanks,
               .staleness = staleness,
               .steps = 8,
               .before_step =
                   [&](int rank, int step) {
                     if (rank != kRanks - 1 || step != 0) return;
                     for (int r = 0; r < kRanks - 1; ++r)
                       while (At(announced, r) < staleness + 1) std::this_thread::yield();
                     for (int r = 0; r < kRanks - 1; ++r)
                       EXPECT_EQ(At(announced, r).load(), staleness + 1);
                   },
               .after_step = [&](int rank, int step) { At(announced, rank) = step + 1; }});
    for (int r = 0; r < kRanks - 1; ++r)
      for (int t = 0; t <= staleness; ++t) EXPECT_EQ(At(At(server.clocks, r), t)[0], 0);
    ExpectClocksWithin(server.clocks, staleness);
    EXPECT_EQ(server.values[0], ReplayClocks(server.clocks));
    // One bucket: step s lagged by s on the fast ranks.
    for (int r = 0; r < kRanks; ++r) {
      const std::vector<int64_t>& seen = At(server.seen, r);
      ASSERT_EQ(Count(seen), staleness + 1);
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), int64_t{0}), 8);
      if (r < kRanks - 1) {
        EXPECT_GE(seen.back(), 1);
      }
    }
  }
}

// A rank that computes must not keep others from the values of its shards: the updates of step 0
// run on the slow rank while it is held up in step 1.
TEST(StaleServer, UpdatesShardsOfARankThatComputes) {
  constexpr int kRanks = 2;
  std::atomic<bool> others_have_read{false};
  const Trained server = Train({.ranks = kRanks,
                                .staleness = 1,
                                .steps = 4,
                                .before_step =
                                    [&](int rank, int step) {
                                      if (rank == 1 && step == 1)
                                        while (!others_have_read) std::this_thread::yield();
                                    },
                                // Step 2 of rank 0 needs clock 1, with the shard of rank 1.
                                .after_step =
                                    [&](int rank, int step) {
                                      if (rank == 0 && step == 2) others_have_read = true;
                                    }});
  EXPECT_EQ(server.values[0], ReplayClocks(server.clocks));
}

TEST(StaleServer, TakesValuesThatWereChangedAfterDrain) {
  constexpr int kRanks = 2;
  for (const int staleness : {0, 2})
    RunRanks(kRanks, [&](Group& group) {
      Arena<float> arena({5});
      std::vector<float> value(5, 1);
      arena.params[0].value = value.data();
      const auto exchange =
          MakeExchange<float>("ssp", {.group = group,
                                      .params = arena.params,
                                      .update = {},
                                      .update_shard =
                                          [](const ShardUpdate<float>& u, Stream&) {
                                            for (int64_t i = 0; i < u.shard.count; ++i)
                                              u.value[i] += u.gradient[i];
                                          },
                                      .staleness = staleness});
      Stream stream;
      const auto step = [&] {
        exchange->AwaitValue(0, 0, stream);
        exchange->Vote({});
        std::fill_n(arena.params[0].gradient, 5, 1.f);
        exchange->GradientReady(0, 0, stream);
        exchange->FinishStep();
        exchange->AwaitVerdict();
      };
      std::ranges::fill(value, 10.f);
      exchange->Drain(0, stream);  // before the first step the values are the caller's
      step();
      exchange->Drain(0, stream);
      EXPECT_THAT(value, ::testing::Each(10.f + kRanks));
      std::ranges::fill(value, 100.f);
      for (int i = 0; i < 3; ++i) step();
      exchange->Drain(0, stream);
      EXPECT_THAT(value, ::testing::Each(100.f + 3 * kRanks));
    });
}

TEST(StaleServer, OwnsShardsThatCoverEveryParameterOnceWithTheirHistory) {
  for (const bool split : {true, false}) {
    constexpr int kRanks = 3;
    std::vector<std::vector<Shard>> shards(kRanks);
    std::vector<int64_t> history(kRanks);  // elements
    RunRanks(kRanks, [&](Group& group) {
      Arena<float> arena(StaleCounts());
      std::vector<float> values(1000);
      for (ParamInfo<float>& param : arena.params) param.value = values.data();
      const auto exchange = MakeExchange<float>("ssp", {.group = group,
                                                        .params = arena.params,
                                                        .update = {},
                                                        .history_slots = 2,
                                                        .split_params = split});
      for (int p = 0; p < Count(StaleCounts()); ++p)
        At(shards, group.rank()).push_back(exchange->owned_shard(p).value());
      for (const StateTensor<float>& tensor : exchange->state()) {
        ASSERT_TRUE(tensor.history.has_value());
        EXPECT_EQ(At(At(shards, group.rank()), tensor.history->param).count, tensor.count);
        At(history, group.rank()) += tensor.count;
      }
    });
    for (int p = 0; p < Count(StaleCounts()); ++p) {
      int64_t next = 0;
      int owners = 0;
      for (const std::vector<Shard>& of_rank : shards) {
        if (At(of_rank, p).count == 0) continue;
        EXPECT_EQ(At(of_rank, p).first, next);
        next += At(of_rank, p).count;
        ++owners;
      }
      EXPECT_EQ(next, At(StaleCounts(), p));
      if (!split) {
        EXPECT_LE(owners, 1) << "parameter " << p;
      }
    }
    const int64_t all = std::accumulate(StaleCounts().begin(), StaleCounts().end(), int64_t{0});
    EXPECT_EQ(std::accumulate(history.begin(), history.end(), int64_t{0}), 2 * all);
    for (const int64_t mine : history) {
      if (split) {
        EXPECT_LE(mine, 2 * (all / kRanks + 1));
      }
    }
  }
}

// Clipping: the owners learn the norm of the whole gradient, with the bits that one rank would get.
TEST(StaleServer, GivesOwnersTheSquaresOfAllParameters) {
  const std::vector<int64_t> counts = {kNormBlock * 3 + 77, 0, 5, kNormBlock * 2 + 1, 7};
  for (const int ranks : {2, 3, 4})
    for (const bool split : {true, false})
      for (const size_t bucket_bytes : {size_t{1}, size_t{4} << 20}) {
        const auto gradient = [&](int rank, int p, int64_t i) {
          return OrderSensitive<float>(rank, p * 613 + i);
        };
        Stream stream;
        double squares = 0;
        for (int p = 0; p + 1 < Count(counts); ++p) {  // the last one is not learned
          std::vector<float> sum(static_cast<size_t>(At(counts, p)));
          for (size_t i = 0; i < sum.size(); ++i)
            sum[i] = TreeByHand<float>(
                0, ranks, [&](int r) { return gradient(r, p, static_cast<int64_t>(i)); });
          squares += SumOfSquares(stream, At(counts, p), sum.data());
        }
        std::vector<std::vector<double>> given(static_cast<size_t>(ranks));
        RunRanks(ranks, [&](Group& group) {
          Arena<float> arena(counts);
          std::vector<float> values(arena.memory.size());
          for (ParamInfo<float>& param : arena.params)
            param.value = values.data() + param.arena_offset;
          arena.params.back().learned = false;
          const auto exchange = MakeExchange<float>(
              "ssp",
              {.group = group,
               .params = arena.params,
               .update = {},
               .update_shard = [&](const ShardUpdate<float>& update,
                                   Stream&) { At(given, group.rank()).push_back(update.squares); },
               .split_params = split,
               .staleness = 1,
               .update_needs_all = true,
               .bucket_bytes = bucket_bytes});
          Stream mine;
          for (int step = 0; step < 3; ++step) {
            exchange->FinishReads(0, mine);
            exchange->Vote({});
            for (int p = 0; p < Count(counts); ++p) {
              for (int64_t i = 0; i < At(counts, p); ++i)
                At(arena.params, p).gradient[i] = gradient(group.rank(), p, i);
              exchange->GradientReady(0, p, mine);
            }
            exchange->FinishStep();
            exchange->AwaitVerdict();
          }
          exchange->Drain(0, mine);
        });
        for (const std::vector<double>& of_rank : given)
          EXPECT_THAT(of_rank, ::testing::Each(squares)) << ranks << " ranks";
        EXPECT_FALSE(given[0].empty());
      }
}

// The others end with its error, whatever they wait for: values, votes or the end.
TEST(StaleServer, ARankThatFailsEndsTheOthers) {
  for (const int staleness : {0, 2})
    for (const int failing : {0, 2}) {
      const Settings settings{
          .ranks = 3, .staleness = staleness, .steps = 20, .before_step = [&](int rank, int step) {
            if (rank == failing && step == 5)
              throw DataError("train_lmdb", 17, "it is damaged", "repair it");
          }};
      EXPECT_THAT(ErrorText<DataError>([&] { Train(settings); }),
                  ::testing::HasSubstr("train_lmdb: record 17"));
    }
}

TEST(StaleServer, RefusesWhatItCannotDo) {
  RunRanks(2, [](Group& group) {
    Arena<float> arena({3});
    const ExchangeSetup<float> setup{.group = group, .params = arena.params, .update = {}};
    ExchangeSetup<float> late = setup;
    late.scheme.timeout = 1;
    EXPECT_THAT(ErrorText<ConfigError>([&] { MakeExchange<float>("ssp", late); }),
                ::testing::HasSubstr("--exchange_timeout is for --exchange=server"));
    ExchangeSetup<float> different = setup;
    different.staleness = group.rank();
    EXPECT_THAT(ErrorText<ConfigError>([&] { MakeExchange<float>("ssp", different); }),
                ::testing::HasSubstr("staleness 1"));
    ExchangeSetup<float> synchronous = setup;
    synchronous.staleness = 1;
    EXPECT_THAT(ErrorText<ConfigError>([&] { MakeExchange<float>("allreduce", synchronous); }),
                ::testing::HasSubstr("is synchronous"));
  });
}

}  // namespace
}  // namespace carafe
