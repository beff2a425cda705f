// The exchange "local" against a serial replay: P copies of the values take H steps each, then the
// outer step with the sum in the fixed tree. Both must have the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/error_text.h"
#include "tests/support/param_arena.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const std::vector<int64_t> kCounts = {5, 0, 300, 7};

struct Case {
  int ranks;
  int steps;  // of a round
  double rate, momentum;
  int workers = 1;
  int total = 6;  // steps
};

// What worker w of rank r makes of element i of a parameter whose value is `value`.
template <typename T>
T Gradient(int rank, int worker, int step, int64_t i, T value) {
  return OrderSensitive<T>(rank * 5 + worker, step * 31 + i) + value / T(3);
}

template <typename T>
using Values = std::vector<std::vector<T>>;  // by parameter

template <typename T>
Values<T> StartValues() {
  Values<T> values;
  for (const int64_t count : kCounts) {
    values.emplace_back();
    for (int64_t i = 0; i < count; ++i) values.back().push_back(OrderSensitive<T>(99, i));
  }
  return values;
}

// The rule of both: value -= 0.1 * sum of the workers' gradients.
template <typename T>
void Step(T sum, T& value) {
  value -= T(0.1) * sum;
}

template <typename T>
Values<T> Replay(const Case& c) {
  Values<T> start = StartValues<T>();
  Values<T> momentum = start;
  for (auto& values : momentum) std::fill(values.begin(), values.end(), T(0));
  std::vector<Values<T>> ranks(static_cast<size_t>(c.ranks), start);
  for (int s = 0; s < c.total; ++s) {
    for (int r = 0; r < c.ranks; ++r)
      for (auto& values : At(ranks, r))
        for (int64_t i = 0; i < Count(values); ++i) {
          const T before = At(values, i);
          Step(TreeByHand<T>(0, c.workers, [&](int w) { return Gradient<T>(r, w, s, i, before); }),
               At(values, i));
        }
    if ((s + 1) % c.steps != 0 && s + 1 != c.total) continue;
    for (int p = 0; p < Count(start); ++p)
      for (int64_t i = 0; i < Count(At(start, p)); ++i) {
        T& a = At(At(start, p), i);
        T change =
            TreeByHand<T>(0, c.ranks, [&](int r) { return a - At(At(At(ranks, r), p), i); }) *
            (T(1) / static_cast<T>(c.ranks));
        if (c.momentum != 0) {
          T& v = At(At(momentum, p), i);
          v = static_cast<T>(c.momentum) * v + change;
          change += static_cast<T>(c.momentum) * v;
        }
        a -= static_cast<T>(c.rate) * change;
        for (int r = 0; r < c.ranks; ++r) At(At(At(ranks, r), p), i) = a;
      }
  }
  return start;
}

// One rank of the exchange, with its parameters.
template <typename T>
struct Rank {
  Rank(Group& group, const Case& c) : group_(group), c_(c), values(StartValues<T>()) {
    for (int w = 0; w < c.workers; ++w) arenas.emplace_back(kCounts);
    std::vector<ParamInfo<T>> params = arenas[0].params;
    for (int p = 0; p < Count(params); ++p) {
      At(params, p).value = At(values, p).data();
      for (int w = 1; w < c.workers; ++w)
        At(params, p).other_gradients.push_back(At(At(arenas, w).params, p).gradient);
    }
    exchange =
        MakeExchange<T>("local", {.group = group,
                                  .params = params,
                                  .update = [this](int p, Stream&) { Update(p); },
                                  .ends_round = [this] { return (step + 1) % c_.steps == 0; },
                                  .outer_rate = c.rate,
                                  .outer_momentum = c.momentum,
                                  .workers = c.workers,
                                  .bucket_bytes = 64});
  }
  void Update(int p) {
    T* sum = At(arenas[0].params, p).gradient;
    for (int64_t i = 0; i < At(kCounts, p); ++i) {
      Step(sum[i], At(At(values, p), i));
      sum[i] = 0;
    }
  }
  // The calls of one step, all by this thread.
  StepVotes Run() {
    for (int w = 0; w < c_.workers; ++w) {
      for (int p = 0; p < Count(kCounts); ++p) exchange->AwaitValue(w, p, stream);
      exchange->FinishReads(w, stream);
    }
    exchange->Vote({.loss = 1.0 + group_.rank(), .weight = 1});
    for (int w = 0; w < c_.workers; ++w)
      for (int p = Count(kCounts) - 1; p >= 0; --p) {
        const ParamInfo<T>& param = At(At(arenas, w).params, p);
        for (int64_t i = 0; i < param.count; ++i) {
          EXPECT_EQ(param.gradient[i], T(0)) << "layers add to it";
          param.gradient[i] = Gradient<T>(group_.rank(), w, step, i, At(At(values, p), i));
        }
        exchange->GradientReady(w, p, stream);
      }
    exchange->FinishStep();
    const StepVotes verdict = exchange->AwaitVerdict();
    ++step;
    return verdict;
  }

  Group& group_;
  const Case c_;
  Stream stream;
  std::vector<Arena<T>> arenas;  // by worker
  Values<T> values;
  int step = 0;
  std::unique_ptr<Exchange<T>> exchange;
};

template <typename T>
void ExpectReplay(const Case& c) {
  SCOPED_TRACE(fmt::format("{} ranks, rounds of {}, rate {}, momentum {}, {} workers", c.ranks,
                           c.steps, c.rate, c.momentum, c.workers));
  const Values<T> expected = Replay<T>(c);
  RunRanks(c.ranks, [&](Group& group) {
    Rank<T> rank(group, c);
    for (int s = 0; s < c.total; ++s) rank.Run();
    rank.exchange->Drain(0, rank.stream);
    EXPECT_EQ(rank.values, expected) << "rank " << group.rank();
  });
}

TEST(LocalSteps, HasTheBitsOfASerialReplay) {
  for (const int ranks : {1, 2, 3, 7})
    for (const int steps : {1, 2, 4}) {  // of 6 steps: the last round of 4 is short
      ExpectReplay<float>({.ranks = ranks, .steps = steps, .rate = 1, .momentum = 0});
      ExpectReplay<float>({.ranks = ranks, .steps = steps, .rate = 0.7, .momentum = 0.9});
    }
  ExpectReplay<double>({.ranks = 3, .steps = 2, .rate = 0.7, .momentum = 0.9});
  ExpectReplay<float>({.ranks = 2, .steps = 3, .rate = 0.7, .momentum = 0.9, .workers = 2});
}

TEST(LocalSteps, RoundsOfOneStepAreTheMeanOfTheRanksValues) {
  const Case c{.ranks = 4, .steps = 1, .rate = 1, .momentum = 0, .total = 1};
  const Values<double> replayed = Replay<double>(c);
  const Values<double> start = StartValues<double>();
  for (int p = 0; p < Count(start); ++p)
    for (int64_t i = 0; i < Count(At(start, p)); ++i) {
      double mean = 0;
      for (int r = 0; r < c.ranks; ++r) {
        double value = At(At(start, p), i);
        Step(Gradient<double>(r, 0, 0, i, value), value);
        mean += value / c.ranks;
      }
      EXPECT_NEAR(At(At(replayed, p), i), mean, 1e-15);
    }
}

// Inside a round nothing is sent, so H steps cost the bytes of one sum, and one verdict has the
// votes of all. All that a rank receives it needs for its values, so it is counted when it has
// them.
TEST(LocalSteps, ARoundSendsOneSumAndOneVerdict) {
  constexpr int kRanks = 3, kRounds = 2;
  const auto bytes_of = [&](int steps) {  // by rank, in all rounds
    std::vector<int64_t> bytes(kRanks);
    RunRanks(kRanks, [&](Group& group) {
      Rank<float> rank(group, {.ranks = kRanks, .steps = steps, .rate = 1, .momentum = 0});
      int64_t before = 0;  // received until the end of the last round
      for (int s = 0; s < kRounds * steps; ++s) {
        const StepVotes verdict = rank.Run();
        const bool last = (s + 1) % steps == 0;
        EXPECT_EQ(verdict.weight, last ? kRanks * steps : 0);
        EXPECT_EQ(verdict.loss, last ? (1 + 2 + 3) * steps : 0);
        rank.exchange->FinishReads(0, rank.stream);
        const int64_t received = rank.exchange->stats().bytes_received;
        if (!last) {
          EXPECT_EQ(received, before) << "step " << s;
        }
        before = received;
        group.Barrier("the next step");  // or a rank that is ahead would send already
      }
      At(bytes, group.rank()) = before;
    });
    return bytes;
  };
  const std::vector<int64_t> one = bytes_of(1);
  EXPECT_EQ(bytes_of(5), one);
  EXPECT_THAT(one, Each(::testing::Gt(0)));
}

TEST(LocalSteps, CancelTakesTheRoundBack) {
  RunRanks(2, [&](Group& group) {
    Rank<float> rank(group, {.ranks = 2, .steps = 3, .rate = 1, .momentum = 0});
    for (int s = 0; s < 3; ++s) rank.Run();
    rank.exchange->Cancel();
    EXPECT_EQ(rank.values, StartValues<float>());
  });
}

TEST(LocalSteps, TakesValuesOverThatWereChangedAfterDrain) {
  const Case c{.ranks = 2, .steps = 2, .rate = 0.5, .momentum = 0, .total = 2};
  const Values<float> expected = Replay<float>(c);
  RunRanks(2, [&](Group& group) {
    Rank<float> rank(group, c);
    rank.Run();
    rank.Run();
    rank.exchange->Drain(0, rank.stream);
    const Values<float> start = StartValues<float>();
    for (int p = 0; p < Count(start); ++p)
      std::ranges::copy(At(start, p), At(rank.values, p).begin());
    rank.step = 0;
    rank.Run();
    rank.Run();
    rank.exchange->Drain(0, rank.stream);
    EXPECT_EQ(rank.values, expected);
  });
}

TEST(LocalSteps, OuterMomentumIsStateAndANewExchangeGoesOnWithIt) {
  const Case c{.ranks = 2, .steps = 2, .rate = 0.7, .momentum = 0.9, .total = 4};
  const Values<float> expected = Replay<float>(c);
  RunRanks(2, [&](Group& group) {
    Values<float> values, kept;
    {
      Rank<float> first(group, c);
      first.Run();
      first.Run();
      first.exchange->Drain(0, first.stream);
      values = first.values;
      for (const StateTensor<float>& tensor : first.exchange->state())
        kept.emplace_back(tensor.data, tensor.data + tensor.count);
    }
    EXPECT_EQ(Count(kept), 3) << "an empty parameter has none";
    Rank<float> second(group, c);
    for (int p = 0; p < Count(values); ++p)
      std::ranges::copy(At(values, p), At(second.values, p).begin());
    const std::vector<StateTensor<float>> state = second.exchange->state();
    for (int t = 0; t < Count(state); ++t) {
      EXPECT_THAT(At(state, t).name, HasSubstr("outer momentum of p"));
      std::ranges::copy(At(kept, t), At(state, t).data);
    }
    second.step = 2;
    second.Run();
    second.Run();
    second.exchange->Drain(0, second.stream);
    EXPECT_EQ(second.values, expected);
  });
}

TEST(LocalSteps, ARankThatFailsInsideARoundEndsTheOthers) {
  const CommTimeouts timeouts{
      .heartbeat = 0.02, .silence = 0.5, .warning = 0.1, .wait = 5, .farewell = 0.5};
  EXPECT_THAT(ErrorText<DataError>([&] {
                RunRanks(
                    3,
                    [&](Group& group) {
                      Rank<float> rank(group, {.ranks = 3, .steps = 3, .rate = 1, .momentum = 0});
                      for (int s = 0; s < 6; ++s) {
                        if (group.rank() == 1 && s == 4) throw DataError("disk", -1, "gone", "");
                        rank.Run();
                      }
                    },
                    timeouts);
              }),
              HasSubstr("gone"));
}

TEST(LocalSteps, RefusesWhatItCannotDo) {
  Group group;
  Arena<float> arena({3});
  ExchangeSetup<float> setup{.group = group, .params = arena.params, .update = [](int, Stream&) {}};
  setup.staleness = 1;
  EXPECT_THAT(ErrorText<ConfigError>([&] { MakeExchange<float>("local", setup); }),
              HasSubstr("--exchange=local is synchronous"));
  setup.staleness = 0;
  setup.scheme.timeout = 1;
  EXPECT_THAT(ErrorText<ConfigError>([&] { MakeExchange<float>("local", setup); }),
              HasSubstr("--exchange_timeout is for --exchange=server"));
}

}  // namespace
}  // namespace carafe
