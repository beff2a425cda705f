// The exchange "sfb": factors instead of gradients, with ranks as threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/factor_product.h"
#include "carafe/kernels/gemm.h"
#include "tests/support/error_text.h"
#include "tests/support/param_arena.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

constexpr int kSteps = 3;

// Parameter 1 has no factors, as a bias.
const std::vector<FactorShape> kShapes = {{1, 7, 11}, {0, 1, 30}, {1, 16, 3}};

struct Case {
  std::string exchange = "sfb";
  int ranks = 2;
  int workers = 1;
  // Rows of a worker in a step, by its index among all.
  std::function<int64_t(int)> rows = [](int) { return int64_t{4}; };
  bool needs_all = false;
  bool overlap = true;
  int discarded = -1;  // this step
};

// Row k of A or B of a worker in a step.
double Element(int worker, int step, int which, int64_t k, int64_t i) {
  return OrderSensitive<double>(worker, step * 101 + which * 7 + k * 13 + i);
}
std::vector<double> Factor(int worker, int step, int which, int64_t rows, int64_t width) {
  std::vector<double> factor;
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t i = 0; i < width; ++i) factor.push_back(Element(worker, step, which, k, i));
  return factor;
}

struct Trained {
  std::vector<double> values;       // of rank 0; the same on all ranks
  std::vector<int64_t> bytes_sent;  // by rank
};

// What one rank keeps: the gradients of its workers and its values.
struct Rank {
  Rank(const Case& c, int rank) {
    std::vector<int64_t> counts;
    for (const FactorShape& shape : kShapes) counts.push_back(shape.a_width * shape.b_width);
    for (int w = 0; w < c.workers; ++w) arenas.emplace_back(counts);
    params = arenas[0].params;
    values.resize(arenas[0].memory.size());
    for (int p = 0; p < Count(params); ++p) {
      ParamInfo<double>& param = At(params, p);
      param.value = values.data() + param.arena_offset;
      param.factors = At(kShapes, p);
      param.factors.rows *= c.rows(rank * c.workers);
      for (int w = 1; w < c.workers; ++w) {
        param.other_gradients.push_back(At(At(arenas, w).params, p).gradient);
        param.other_factor_rows.push_back(At(kShapes, p).rows * c.rows(rank * c.workers + w));
      }
    }
  }
  std::vector<Arena<double>> arenas;  // by worker
  std::vector<ParamInfo<double>> params;
  std::vector<double> values;
};

// One worker's backward pass. Factors come in two pieces, as those of two passes or layers do.
void Backward(Exchange<double>& exchange, const Case& c, Rank& rank, int w, int worker, int step) {
  Stream stream;
  for (int p = Count(kShapes); p-- > 0;) {
    const FactorShape& shape = At(kShapes, p);
    const int64_t rows = c.rows(worker);
    std::vector<double> a = Factor(worker, step, 2 * p, rows, shape.a_width);
    std::vector<double> b = Factor(worker, step, 2 * p + 1, rows, shape.b_width);
    if (exchange.WantsFactors(p)) {
      const int64_t first = rows / 2;
      for (const auto& [begin, end] : {std::pair(int64_t{0}, first), {first, rows}}) {
        // The worker's weight is 1 in all: A is halved here and doubled by it.
        std::vector<double> half(a.begin() + begin * shape.a_width,
                                 a.begin() + end * shape.a_width);
        for (double& x : half) x /= 2;
        std::vector<double> piece(b.begin() + begin * shape.b_width,
                                  b.begin() + end * shape.b_width);
        exchange.FactorsReady(w, p,
                              {.a = half.data(),
                               .b = piece.data(),
                               .shape = {end - begin, shape.a_width, shape.b_width},
                               .scale = 2},
                              stream);
        std::fill(half.begin(), half.end(), NAN);  // other layers use the memory again
        std::fill(piece.begin(), piece.end(), NAN);
      }
    } else {
      double* gradient = At(At(rank.arenas, w).params, p).gradient;
      Gemm<double>(stream, Op::kTrans, Op::kNone, shape.a_width, shape.b_width, rows, 1, a.data(),
                   b.data(), 1, gradient);
    }
    exchange.GradientReady(w, p, stream);
  }
}

Trained Train(const Case& c) {
  std::vector<Trained> of_ranks(static_cast<size_t>(c.ranks));
  RunRanks(c.ranks, [&](Group& group) {
    Rank rank(c, group.rank());
    const auto exchange = MakeExchange<double>(
        c.exchange, {.group = group,
                     .params = rank.params,
                     .update =
                         [&](int p, Stream&) {
                           double norm = 1;  // of all gradients, as clipping looks at them
                           if (c.needs_all)
                             for (double x : rank.arenas[0].memory) norm += x * x;
                           const ParamInfo<double>& param = At(rank.params, p);
                           for (int64_t i = 0; i < param.count; ++i)
                             param.value[i] += param.gradient[i] / norm;
                           if (c.needs_all)
                             return;  // as with a callback, cleared when all are used
                           std::fill_n(param.gradient, param.count, 0.0);
                         },
                     .workers = c.workers,
                     .update_needs_all = c.needs_all,
                     .bucket_bytes = 100,
                     .overlap = c.overlap});
    Stream stream;
    for (int step = 0; step < kSteps; ++step) {
      exchange->Drain(0, stream);
      std::ranges::fill(rank.arenas[0].memory, 0.0);
      exchange->Vote({.weight = 1});
      std::vector<std::thread> others;
      for (int w = 1; w < c.workers; ++w)
        others.emplace_back(
            [&, w] { Backward(*exchange, c, rank, w, group.rank() * c.workers + w, step); });
      Backward(*exchange, c, rank, 0, group.rank() * c.workers, step);
      for (std::thread& other : others) other.join();
      exchange->FinishStep();
      EXPECT_EQ(exchange->AwaitVerdict().weight, c.ranks);
      if (step == c.discarded) exchange->Cancel();
    }
    exchange->Drain(0, stream);
    At(of_ranks, group.rank()) = {rank.values, {exchange->stats().bytes_sent}};
  });
  Trained trained{of_ranks[0].values, {}};
  for (const Trained& of_rank : of_ranks) {
    EXPECT_EQ(of_rank.values, trained.values) << "replicas";
    trained.bytes_sent.push_back(of_rank.bytes_sent[0]);
  }
  return trained;
}

// max |a - b| / max |a|.
double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(a[i]));
  }
  EXPECT_GT(scale, 1e-6);
  return most / scale;
}

TEST(Factors, GiveTheDenseSumToRoundingAndEqualReplicas) {
  for (const int ranks : {2, 3, 4, 7})
    for (const bool needs_all : {false, true})
      for (const bool overlap : {true, false}) {
        Case c{.ranks = ranks, .needs_all = needs_all, .overlap = overlap};
        const Trained factors = Train(c);
        c.exchange = "allreduce";
        EXPECT_LE(Difference(Train(c).values, factors.values), 1e-12) << ranks << " ranks";
      }
}

TEST(Factors, HaveTheBitsOfAsManyRanksWithSeveralWorkers) {
  const Trained ranks = Train({.ranks = 4});
  EXPECT_EQ(Train({.ranks = 2, .workers = 2}).values, ranks.values);
  EXPECT_EQ(Train({.ranks = 2, .workers = 2, .overlap = false}).values, ranks.values);
}

TEST(Factors, OfUnequalNumbersOfRows) {
  const auto rows = [](int worker) { return int64_t{5} - worker % 2; };
  const Trained factors = Train({.ranks = 3, .workers = 2, .rows = rows});
  EXPECT_LE(
      Difference(Train({.exchange = "allreduce", .ranks = 3, .workers = 2, .rows = rows}).values,
                 factors.values),
      1e-12);
}

TEST(Factors, AreSentToEveryOtherRankOnceAndAllElseIsSummed) {
  // (P-1) K (M + N) elements of each layer; 2 ranks swap the sum of 30.
  const auto rows = [](int worker) { return int64_t{4} + worker; };
  const Trained two = Train({.ranks = 2, .rows = rows});
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(At(two.bytes_sent, r),
              kSteps * (rows(r) * (7 + 11 + 16 + 3) + 30) * int64_t{sizeof(double)});
  const Trained five = Train({.ranks = 5, .workers = 2});
  for (int r = 0; r < 5; ++r)  // 240 bytes: everyone sends all to everyone
    EXPECT_EQ(At(five.bytes_sent, r),
              kSteps * 4 * (2 * 4 * (7 + 11 + 16 + 3) + 30) * int64_t{sizeof(double)});
}

TEST(Factors, OfADiscardedStepAreNotUsed) {
  for (const bool needs_all : {false, true}) {
    Case c{.ranks = 3, .needs_all = needs_all, .discarded = 1};
    const Trained factors = Train(c);
    c.exchange = "allreduce";
    EXPECT_LE(Difference(Train(c).values, factors.values), 1e-12);
    EXPECT_GT(Difference(Train({.ranks = 3, .needs_all = needs_all}).values, factors.values), 1e-6);
  }
}

// One step of two ranks; rank 1 offers `rows` of the 4 rows that are planned.
std::vector<double> OneStep(int64_t rows) {
  std::vector<double> sum;
  RunRanks(2, [&](Group& group) {
    const Case c;
    Rank rank(c, group.rank());
    const auto exchange = MakeExchange<double>(
        "sfb", {.group = group, .params = rank.params, .update = [](int, Stream&) {}});
    Stream stream;
    exchange->Vote({.weight = 1});
    Case offered = c;
    if (group.rank() == 1) offered.rows = [&](int) { return rows; };
    Backward(*exchange, offered, rank, 0, group.rank(), 0);
    exchange->FinishStep();
    exchange->AwaitVerdict();
    exchange->Drain(0, stream);
    if (group.rank() == 0) sum = rank.arenas[0].memory;
  });
  return sum;
}

TEST(Factors, RowsThatAreMissingCountAsNothing) {
  const std::vector<double> sum = OneStep(3);
  std::vector<double> by_hand;  // of parameter 2, the first in the arena
  for (int64_t i = 0; i < 16; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      double x = 0;
      for (int worker = 0; worker < 2; ++worker)
        for (int64_t k = 0; k < (worker == 0 ? 4 : 3); ++k)
          x += Element(worker, 0, 4, k, i) * Element(worker, 0, 5, k, j);
      by_hand.push_back(x);
    }
  for (size_t i = 0; i < by_hand.size(); ++i) EXPECT_NEAR(sum[i], by_hand[i], 1e-12);
}

TEST(Factors, MoreRowsThanPlannedAreRefused) {
  EXPECT_EQ(ErrorText<ConfigError>([] { OneStep(5); }),
            "error: p2: an iteration has more than the 4 rows that were planned for its factors\n"
            "  fix: give batches that keep their size, or exchange this layer densely: "
            "--plan=LAYER:dense");
}

// Ranks may have different numbers of threads, and must get the same bits.
TEST(FactorProduct, IsThatOfOneThreadAndOfTheDefinition) {
  for (const FactorShape& shape : {FactorShape{24, 50, 64},
                                   {7, 3, 5},
                                   {40, 33, 129},
                                   {1, 1, 1},
                                   {3, 1024, 1000},
                                   {300, 20, 31}}) {
    std::vector<float> a, b;
    for (int64_t i = 0; i < shape.rows * shape.a_width; ++i)
      a.push_back(OrderSensitive<float>(1, i));
    for (int64_t i = 0; i < shape.rows * shape.b_width; ++i)
      b.push_back(OrderSensitive<float>(2, i));
    std::vector<std::vector<float>> products;
    for (const int threads : {1, 2, 3}) {
      Stream stream(CpuDevice(), threads);
      std::vector<float> memory(static_cast<size_t>(ProductMemory<float>(shape)));
      products.emplace_back(static_cast<size_t>(shape.a_width * shape.b_width));
      MultiplyFactors(stream, shape, a.data(), b.data(), memory.data(), products.back().data());
    }
    EXPECT_EQ(products[1], products[0]);
    EXPECT_EQ(products[2], products[0]);
    for (const int64_t i : {int64_t{0}, shape.a_width / 2, shape.a_width - 1}) {
      const int64_t j = shape.b_width - 1;
      double sum = 0;
      for (int64_t k = 0; k < shape.rows; ++k)
        sum += double{At(a, k * shape.a_width + i)} * double{At(b, k * shape.b_width + j)};
      EXPECT_NEAR(At(products[0], i * shape.b_width + j), sum, 1e-4 * (1 + std::abs(sum)));
    }
  }
}

TEST(Factors, AreRefusedByExchangesThatTakeGradients) {
  Group group;
  for (const char* name : {"allreduce", "sfb"}) {  // one rank has nobody to send them to
    Arena<float> arena({6});
    arena.params[0].factors = {2, 3, 2};
    const auto exchange = MakeExchange<float>(
        name, {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
    Stream stream;
    EXPECT_FALSE(exchange->WantsFactors(0));
    EXPECT_THROW(exchange->FactorsReady(0, 0, {}, stream), InternalError);
  }
}

}  // namespace
}  // namespace carafe
