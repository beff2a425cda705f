#include "carafe/exchange/exchange.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/scheme.h"
#include "tests/support/exchange_values.h"
#include "tests/support/param_arena.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const int kSizes[] = {1, 2, 3, 5, 7, 8};
constexpr CommTimeouts kShort = {
    .heartbeat = 0.02, .silence = 0.5, .warning = 0.1, .wait = 0.6, .farewell = 0.5};

template <typename T>
void FillGradients(Arena<T>& arena, int rank, int step) {
  for (int p = 0; p < static_cast<int>(arena.params.size()); ++p)
    for (int64_t i = 0; i < arena.params[p].count; ++i)
      arena.params[p].gradient[i] = OrderSensitive<T>(rank, step * 31 + p * 613 + i);
}

template <typename T>
void ExpectSums(const ParamInfo<T>& param, int p, int size, int step) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < param.count; ++i)
    wrong += param.gradient[i] != TreeByHand<T>(0, size, [&](int r) {
               return OrderSensitive<T>(r, step * 31 + p * 613 + i);
             });
  EXPECT_EQ(wrong, 0) << param.name << " of " << size << " ranks, step " << step;
}

// Some steps with all calls in order; the order of the announcements differs per rank and step.
template <typename T>
void RunSteps(Group& group, const std::vector<int64_t>& counts, size_t bucket_bytes, int steps,
              bool overlap = true, bool needs_all = false, int64_t align = 1) {
  Arena<T> arena(counts, align);
  Stream stream;
  int step = 0;
  std::vector<int> updates(counts.size());
  const auto exchange =
      MakeExchange<T>("allreduce", {.group = group,
                                    .params = arena.params,
                                    .update =
                                        [&](int p, Stream&) {
                                          ExpectSums(arena.params[p], p, group.size(), step);
                                          ++updates[p];
                                        },
                                    .update_needs_all = needs_all,
                                    .bucket_bytes = bucket_bytes,
                                    .overlap = overlap});
  std::vector<int> order(counts.size());
  for (size_t p = 0; p < order.size(); ++p) order[p] = static_cast<int>(p);
  std::mt19937 random(group.rank() + 1);
  for (int s = 1; s <= steps; ++s) {
    for (size_t p = 0; p < counts.size(); ++p) exchange->AwaitValue(0, static_cast<int>(p), stream);
    step = s;
    FillGradients(arena, group.rank(), step);
    std::shuffle(order.begin(), order.end(), random);
    for (int p : order) exchange->GradientReady(0, p, stream);
    exchange->Vote({.loss = 1.0 + group.rank(), .weight = 1});
    exchange->FinishStep();
    const StepVotes verdict = exchange->AwaitVerdict();
    EXPECT_EQ(verdict.weight, group.size());
    EXPECT_EQ(verdict.loss, group.size() * (group.size() + 1) / 2);
    EXPECT_EQ(verdict.stop, 0);
  }
  exchange->Drain(0, stream);
  for (int count : updates) EXPECT_EQ(count, steps);
  EXPECT_EQ(exchange->stats().steps, steps);
}

TEST(Exchange, SumsInTheFixedTreeWhateverTheBuckets) {
  const std::vector<int64_t> counts = {500, 0, 1, 25, 2011, 7, 3, 5000, 64, 0, 10};
  for (int size : kSizes)
    for (size_t bucket_bytes : {size_t{1}, size_t{300}, size_t{10000}, size_t{4} << 20}) {
      RunRanks(size, [&](Group& group) { RunSteps<float>(group, counts, bucket_bytes, 3); });
      RunRanks(size, [&](Group& group) { RunSteps<double>(group, counts, bucket_bytes, 2); });
    }
}

TEST(Exchange, SumsAlignedParametersWithGapsBetweenThem) {
  for (int size : {2, 3})
    RunRanks(size, [&](Group& group) {
      RunSteps<float>(group, {33, 1, 100, 17}, 1 << 20, 3, true, false, 16);
    });
}

TEST(Exchange, SumsWhatIsLongerThanAChunk) {
  for (int size : {2, 3})
    RunRanks(size, [&](Group& group) {
      RunSteps<float>(group, {11, 1500001, 300}, size_t{4} << 20, 1);
    });
}

TEST(Exchange, WorksWithoutOverlapAndWithUpdatesThatNeedAll) {
  for (int size : {1, 3}) {
    RunRanks(size, [&](Group& group) { RunSteps<float>(group, {5, 900, 3}, 100, 3, false); });
    RunRanks(size, [&](Group& group) { RunSteps<float>(group, {5, 900, 3}, 100, 3, true, true); });
  }
}

TEST(Exchange, WorksWithoutAnyParameter) {
  for (int size : {1, 2}) RunRanks(size, [&](Group& group) { RunSteps<float>(group, {}, 100, 3); });
}

TEST(Exchange, EverySchemeAndEverySplitOfTheWorkersGivesTheSameBits) {
  for (int total : {1, 2, 3, 4, 8}) {
    const std::vector<float> expected = ValuesAfter("allreduce", total, 1, true, false);
    for (const char* scheme : {"allreduce", "server", "tree"})
      for (int workers : {1, 2, 4}) {
        if (total % workers != 0) continue;
        for (bool overlap : {true, false})
          for (bool needs_all : {true, false})
            EXPECT_EQ(ValuesAfter(scheme, total / workers, workers, overlap, needs_all), expected)
                << scheme << ": " << total / workers << " x " << workers;
      }
    EXPECT_EQ(ValuesAfter("allreduce", total, 1, true, false, {.algorithm = "halving"}), expected);
    EXPECT_EQ(ValuesAfter("allreduce", total, 1, true, false,
                          {.message_bytes = 100, .algorithm = "owners"}),
              expected);
    EXPECT_EQ(ValuesAfter("tree", total, 1, true, false, {.message_bytes = 100, .branches = 3}),
              expected);
  }
}

TEST(Exchange, WorkersThatAreLateAtRandomChangeNoBit) {
  std::map<int, std::vector<float>> expected;
  for (int seed = 1; seed <= 200; ++seed) {
    const int ranks = 2 + seed % 3, workers = 1 + seed % 2;
    const char* const schemes[] = {"allreduce", "server", "tree"};
    const std::vector<float> values = ValuesAfter(schemes[seed / 6 % 3], ranks, workers, true,
                                                  false, {.message_bytes = 2000}, seed);
    const auto [first, is_new] = expected.emplace(ranks * workers * 10 + workers, values);
    ASSERT_EQ(values, first->second) << "seed " << seed;
  }
}

void ExpectSameBitsThrough(const RankLink& link) {
  for (int size : {2, 3, 8})
    RunRanks(
        size,
        [&](Group& group) {
          RunSteps<float>(group, {11, 700001, 300, 60000, 1}, size_t{1} << 20, 2);
        },
        {}, link);
  for (int seed = 1; seed <= 30; ++seed) {
    const int ranks = 2 + seed % 3, workers = 1 + seed % 2;
    const char* scheme = std::array{"allreduce", "server", "tree"}[static_cast<size_t>(seed % 3)];
    const SchemeSettings settings{.message_bytes = 6000};
    EXPECT_EQ(ValuesAfter(scheme, ranks, workers, true, false, settings, seed, link),
              ValuesAfter(scheme, ranks, workers, true, false, settings))
        << "seed " << seed;
  }
}

TEST(Exchange, SharedMemoryCarriesTheSameBits) { ExpectSameBitsThrough(ThroughSharedMemory); }
TEST(Exchange, SocketsCarryTheSameBits) { ExpectSameBitsThrough(ThroughSockets); }

// Rank 2 does not announce its gradient of step 1 before rank 0 has made that step.
TEST(Exchange, AServerWithATimeoutGoesOnWithoutALateRank) {
  std::atomic<int> root_has_made{-1};
  std::vector<float> sums;  // of rank 0, by step
  RunRanks(3, [&](Group& group) {
    Arena<float> arena({40000});
    std::vector<float> values(arena.memory.size());
    arena.params[0].value = values.data();
    Stream stream;
    const auto exchange =
        MakeExchange<float>("server", {.group = group,
                                       .params = arena.params,
                                       .update =
                                           [&](int, Stream&) {
                                             sums.push_back(arena.memory.back());
                                             for (size_t i = 0; i < values.size(); ++i) {
                                               values[i] += arena.memory[i];
                                               arena.memory[i] = 0;
                                             }
                                           },
                                       .scheme = {.timeout = 1}});
    for (int step = 0; step < 4; ++step) {
      const bool late = group.rank() == 2 && step == 1;
      while (late && root_has_made < 1) std::this_thread::yield();
      std::fill(arena.memory.begin(), arena.memory.end(), late ? 100.f : 1.f);
      exchange->GradientReady(0, 0, stream);
      exchange->Vote({.loss = 1, .weight = 1});
      exchange->FinishStep();
      const StepVotes verdict = exchange->AwaitVerdict();
      EXPECT_DOUBLE_EQ(verdict.loss / verdict.weight, 1);
      exchange->AwaitValue(0, 0, stream);
      if (group.rank() == 0) root_has_made = step;
    }
    // Everyone has rank 0's values.
    for (const std::string& theirs : group.AllGather(
             std::string(reinterpret_cast<const char*>(values.data()), 4), "the values"))
      EXPECT_EQ(std::memcmp(theirs.data(), values.data(), 4), 0);
  });
  EXPECT_EQ(sums[0], 3);
  EXPECT_EQ(sums[1], 3);                    // (1 + 1) / 2 * 3
  EXPECT_FLOAT_EQ(sums[2], 103.f / 4 * 3);  // 1 + 1 + 1 and 100
  EXPECT_EQ(sums[3], 3);
}

TEST(Exchange, SaysInALineWhatItWillDo) {
  RunRanks(
      4,
      [&](Group& group) {
        EXPECT_EQ(DescribeExchange(group, "allreduce", {}),
                  "allreduce: parts straight to their owners, sums to all; by shared memory");
        EXPECT_EQ(DescribeExchange(group, "tree", {.branches = 3}),
                  "tree: up a binomial tree, down a tree of 3; by shared memory");
        EXPECT_EQ(DescribeExchange(group, "server", {.timeout = 2.5}),
                  "server: all to rank 0, which waits 2.5 s and sends values to all; by shared "
                  "memory");
      },
      {}, ThroughSharedMemory);
  RunRanks(
      2,
      [&](Group& group) {
        EXPECT_EQ(DescribeExchange(group, "allreduce", {}),
                  "allreduce: both send all to each other; by TCP sockets");
      },
      {}, ThroughSockets);
}

// Messages that rank 0 sends for a sum, between hosts of `local` ranks each.
size_t MessagesOfSum(int size, int64_t bytes, int local = 1) {
  SchemeSettings settings;
  settings.message_bytes = size_t{1} << 20;
  settings.hosts = HostLayout::Even(size, local);
  size_t messages = 0;
  for (const Program& program :
       FindScheme("allreduce").sum(settings, 0, size, bytes / int64_t{sizeof(float)}, bytes))
    messages += static_cast<size_t>(std::count_if(
        program.begin(), program.end(),
        [](const Operation& operation) { return operation.kind == Operation::Kind::kSend; }));
  return messages;
}

TEST(Exchange, ShortSumsTakeFewMessages) {
  EXPECT_EQ(MessagesOfSum(8, 1 << 10), 7u) << "to everyone at once";
  EXPECT_EQ(MessagesOfSum(8, 16 << 10), 3u) << "doubled";
  EXPECT_EQ(MessagesOfSum(8, 64 << 10), 6u) << "halved and doubled";
  EXPECT_EQ(MessagesOfSum(8, 1 << 20), 14u) << "to owners";
  EXPECT_EQ(MessagesOfSum(2, 64 << 10), 1u) << "two swap all";
  EXPECT_EQ(MessagesOfSum(2, 64 << 10, 2), 2u) << "but not in shared memory";
  EXPECT_EQ(MessagesOfSum(8, 64 << 10, 8), 14u);
}

TEST(Exchange, ATimeoutIsForTheServerOnly) {
  RunRanks(2, [&](Group& group) {
    Arena<float> arena({4});
    EXPECT_THROW(MakeExchange<float>("allreduce", {.group = group,
                                                   .params = arena.params,
                                                   .update = [](int, Stream&) {},
                                                   .scheme = {.timeout = 1}}),
                 ConfigError);
  });
}

TEST(Exchange, UpdatesThatNeedAllSeeEverySum) {
  RunRanks(3, [](Group& group) {
    Arena<double> arena({4, 50, 3});
    Stream stream;
    int updates = 0;
    const auto exchange =
        MakeExchange<double>("allreduce", {.group = group,
                                           .params = arena.params,
                                           .update =
                                               [&](int, Stream&) {
                                                 if (updates++ > 0) return;
                                                 for (int p = 0; p < 3; ++p)
                                                   ExpectSums(arena.params[p], p, 3, 1);
                                               },
                                           .update_needs_all = true,
                                           .bucket_bytes = 8});
    FillGradients(arena, group.rank(), 1);
    for (int p : {2, 1, 0}) exchange->GradientReady(0, p, stream);
    exchange->Vote({});
    exchange->FinishStep();
    exchange->AwaitVerdict();
    exchange->AwaitValue(0, 1, stream);
    EXPECT_EQ(updates, 1);
    exchange->Drain(0, stream);
    EXPECT_EQ(updates, 3);
  });
}

TEST(Exchange, EveryRankHearsEveryVote) {
  for (int size : kSizes)
    RunRanks(size, [](Group& group) {
      Arena<float> arena({3});
      Stream stream;
      const auto exchange = MakeExchange<float>(
          "allreduce", {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
      const bool last = group.rank() == group.size() - 1;
      for (int step = 0; step < 20; ++step) {
        exchange->AwaitValue(0, 0, stream);
        exchange->GradientReady(0, 0, stream);
        exchange->Vote({.loss = 0.5, .weight = 1, .stop = last && step == 19 ? 1.0 : 0.0});
        exchange->FinishStep();
        const StepVotes verdict = exchange->AwaitVerdict();
        EXPECT_EQ(verdict.loss / verdict.weight, 0.5);
        EXPECT_EQ(verdict.stop, step == 19 ? 1 : 0);
      }
      exchange->Drain(0, stream);
    });
}

TEST(Exchange, CancelForgetsTheStep) {
  for (int size : {1, 2, 5})
    RunRanks(size, [](Group& group) {
      Arena<float> arena({3, 700});
      Stream stream;
      int updates = 0;
      const auto exchange = MakeExchange<float>(
          "allreduce",
          {.group = group, .params = arena.params, .update = [&](int, Stream&) { ++updates; }});
      for (int step = 0; step < 4; ++step) {
        for (int p : {0, 1}) exchange->AwaitValue(0, p, stream);
        FillGradients(arena, group.rank(), step);
        for (int p : {1, 0}) exchange->GradientReady(0, p, stream);
        exchange->Vote({.bad = step % 2 == 0 && group.rank() == 0 ? 1.0 : 0.0});
        exchange->FinishStep();
        if (exchange->AwaitVerdict().bad > 0) exchange->Cancel();
      }
      exchange->Drain(0, stream);
      EXPECT_EQ(updates, 4);
    });
}

TEST(Exchange, RefusesCallsOutOfOrder) {
  for (int size : {1, 2})
    RunRanks(size, [](Group& group) {
      Arena<float> arena({3, 4});
      Stream stream;
      const auto exchange = MakeExchange<float>(
          "allreduce", {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
      EXPECT_THROW(exchange->AwaitVerdict(), InternalError);
      EXPECT_THROW(exchange->FinishStep(), InternalError);
      exchange->GradientReady(0, 0, stream);
      EXPECT_THROW(exchange->GradientReady(0, 0, stream), InternalError);
      EXPECT_THROW(exchange->AwaitValue(0, 0, stream), InternalError);
      exchange->GradientReady(0, 1, stream);
      exchange->Vote({});
      exchange->FinishStep();
      exchange->AwaitVerdict();
      exchange->Drain(0, stream);
    });
}

TEST(Exchange, UnknownNameListsThoseThatAreBuilt) {
  Group group;
  try {
    MakeExchange<float>("gossip", {.group = group, .params = {}, .update = [](int, Stream&) {}});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("gossip"), HasSubstr("allreduce")));
  }
}

TEST(Exchange, RefusesDifferentPlansAndNamesTheParameter) {
  std::vector<std::string> errors(3);
  RunRanks(3, [&](Group& group) {
    Arena<float> arena({10, group.rank() == 2 ? 21 : 20, 5});
    try {
      MakeExchange<float>("allreduce",
                          {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
    } catch (const ConfigError& error) {
      errors[group.rank()] = error.what();
    }
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                AllOf(HasSubstr("rank 2 on thread2"), HasSubstr("p1(21)"), HasSubstr("p1(20)")));
}

TEST(Exchange, ARankThatThrowsInAStepEndsTheOthers) {
  for (int size : {2, 3, 8}) {
    std::vector<std::string> errors(size);
    std::atomic<int> ended{0};
    try {
      RunRanks(size, [&](Group& group) {
        Arena<float> arena({30, 200000, 5});
        Stream stream;
        const auto exchange = MakeExchange<float>(
            "allreduce", {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
        try {
          for (int step = 0;; ++step) {
            for (int p : {0, 1, 2}) exchange->AwaitValue(0, p, stream);
            exchange->GradientReady(0, 2, stream);
            if (step == 3 && group.rank() == 1) throw std::runtime_error("record 17 is broken");
            for (int p : {1, 0}) exchange->GradientReady(0, p, stream);
            exchange->Vote({});
            exchange->FinishStep();
            exchange->AwaitVerdict();
          }
        } catch (const std::exception& error) {
          errors[group.rank()] = error.what();
          group.Fail(error.what());
          ++ended;
          throw;
        }
      });
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "record 17 is broken");
    }
    EXPECT_EQ(ended.load(), size);
    for (int r = 0; r < size; ++r) {
      if (r == 1) continue;
      EXPECT_THAT(errors[r], AllOf(HasSubstr("rank 1 on thread1"), HasSubstr("record 17")));
    }
  }
}

// Alive, but its computation hangs in step 2. Others may wait for ranks that wait for it.
TEST(Exchange, ARankThatStopsAnnouncingIsNamedAlone) {
  constexpr CommTimeouts timeouts = {
      .heartbeat = 0.02, .silence = 4, .warning = 9, .wait = 0.8, .farewell = 0.5};
  for (const auto& [size, algorithm] : {std::pair{3, "auto"}, {8, "halving"}, {8, "owners"}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {}", size, algorithm));
    const int hung = size - 2;
    std::vector<std::string> errors(size);
    std::atomic<int> ended{0};
    RunRanks(
        size,
        [&](Group& group) {
          Arena<float> arena({30, 20000});
          Stream stream;
          const auto exchange =
              MakeExchange<float>("allreduce", {.group = group,
                                                .params = arena.params,
                                                .update = [](int, Stream&) {},
                                                .scheme = {.algorithm = algorithm}});
          try {
            for (int step = 0;; ++step) {
              for (int p : {0, 1}) exchange->AwaitValue(0, p, stream);
              if (step == 2 && group.rank() == hung) {
                while (ended < size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                return;
              }
              for (int p : {1, 0}) exchange->GradientReady(0, p, stream);
              exchange->Vote({});
              exchange->FinishStep();
              exchange->AwaitVerdict();
            }
          } catch (const CommError& error) {
            errors[group.rank()] = error.what();
            ++ended;
          }
        },
        timeouts);
    const std::string name = fmt::format(" s for rank {0} on thread{0}: ", hung);
    for (int r = 0; r < size; ++r)
      if (r != hung) {
        EXPECT_THAT(errors[r], AllOf(HasSubstr("waited"), HasSubstr(name)));
      }
  }
}

}  // namespace
}  // namespace carafe
