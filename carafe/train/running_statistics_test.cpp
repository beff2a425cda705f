// The running statistics of BatchNorm over several workers: after every iteration each has the mean
// over those that took part, which is not what any of them has seen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/scheme.h"
#include "carafe/train/trainer.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

constexpr int kBatch = 3;
constexpr double kFade = 0.999f;  // of what was there before

using Statistics = std::vector<double>;  // all blobs of the layer, end to end

// a x + b y
Statistics Combined(double a, const Statistics& x, double b, const Statistics& y) {
  Statistics result = x;
  for (size_t i = 0; i < result.size(); ++i) result[i] = a * x[i] + b * y[i];
  return result;
}

Statistics Mean(const std::vector<Statistics>& parts) {
  Statistics sum(parts[0].size());
  for (const Statistics& part : parts) sum = Combined(1, sum, 1, part);
  return Combined(1 / static_cast<double>(parts.size()), sum, 0, sum);
}

void ExpectNear(const Statistics& a, const Statistics& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12 * std::fabs(b[i])) << i;
}

// A frozen convolution below BatchNorm: what a worker sees in an iteration depends on its pictures
// alone, and can be had from a run of one worker that reads only these.
class RunningStatisticsTest : public SmallTraining {
 protected:
  SolverSpec Normed(const std::string& more = "") const {
    SolverSpec spec = Spec(kBatch, "momentum: 0.9 " + more);
    for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer()) {
      if (layer.name() == "data") {
        layer.mutable_data_param()->set_shuffle(false);
        layer.mutable_transform_param()->set_mirror(false);
        layer.mutable_transform_param()->clear_crop_size();
      }
      if (layer.name() == "conv")
        for (int i = 0; i < 2; ++i) layer.add_param()->set_lr_mult(0);
      if (layer.name() != "relu") continue;
      layer.set_name("norm");
      layer.set_type("BatchNorm");
    }
    return spec;
  }

  // What one batch adds, by worker and pass. Worker w of P takes the pictures w, w + P, ..
  std::vector<std::vector<Statistics>> BatchesOf(int workers, int passes) const {
    std::vector<std::vector<Statistics>> batches(static_cast<size_t>(workers));
    const std::vector<Datum> pictures = Pictures();
    for (size_t w = 0; w < batches.size(); ++w) {
      const std::string name = fmt::format("{}_of_{}", w, workers);
      std::vector<Datum> mine;
      for (size_t i = w; i < pictures.size(); i += batches.size()) mine.push_back(pictures[i]);
      WriteDatabase(name, mine);
      SolverSpec spec = Normed();
      spec.param.mutable_net_param()->mutable_layer(0)->mutable_data_param()->set_source(
          (folder_ / name).string());
      RunRanks(1, [&](Group& group) {
        Stream stream;
        Trainer<double> trainer(spec, Quiet(), group, stream);
        Statistics before = StatisticsOf(trainer);
        for (int pass = 0; pass < passes; ++pass) {
          trainer.Step(1);
          const Statistics now = StatisticsOf(trainer);
          batches[w].push_back(Combined(1, now, -kFade, before));
          before = now;
        }
      });
    }
    return batches;
  }

  static Statistics StatisticsOf(Trainer<double>& trainer) {
    trainer.solver().Drain();
    Statistics all;
    for (const Param<double>& param : trainer.solver().net().params()) {
      if (param.learned) continue;
      const std::vector<double> blob = param.blob->DataToHost(trainer.solver().stream());
      all.insert(all.end(), blob.begin(), blob.end());
    }
    return all;
  }
};

TEST_F(RunningStatisticsTest, AreTheMeanOverAllWorkersAfterEveryIteration) {
  constexpr int kIterations = 4;
  struct Split {
    int ranks, workers;
  };
  std::map<int, std::vector<std::vector<Statistics>>> by_total;
  for (const int total : {2, 3, 4}) by_total[total] = BatchesOf(total, 2 * kIterations);
  for (const Split& split : {Split{2, 1}, Split{1, 2}, Split{3, 1}, Split{2, 2}}) {
    const auto& batches = by_total[split.ranks * split.workers];
    for (const int iter_size : {1, 2}) {
      std::vector<Statistics> expected;  // by iteration
      for (int i = 0; i < kIterations; ++i) {
        std::vector<Statistics> parts;
        for (const std::vector<Statistics>& batch : batches) {
          Statistics part = i == 0 ? Statistics(batch[0].size()) : expected.back();
          for (int pass = i * iter_size; pass < (i + 1) * iter_size; ++pass)
            part = Combined(kFade, part, 1, batch[static_cast<size_t>(pass)]);
          parts.push_back(part);
        }
        expected.push_back(Mean(parts));
      }
      for (const std::string& strategy : SchemeRegistry::Instance().Names()) {
        SCOPED_TRACE(fmt::format("{} {} x {}, iter_size {}", strategy, split.ranks, split.workers,
                                 iter_size));
        TrainOptions options = Quiet();
        options.exchange = strategy;
        options.workers = split.workers;
        RunRanks(split.ranks, [&](Group& group) {
          Stream stream;
          Trainer<double> trainer(Normed(fmt::format("iter_size: {}", iter_size)), options, group,
                                  stream);
          for (const Statistics& mean : expected) {
            trainer.Step(1);
            ExpectNear(StatisticsOf(trainer), mean);
          }
        });
      }
    }
  }
}

// Rank 2 begins iteration 2 only when the snapshot of the iteration after that is on disk, which
// rank 0 writes from what it and rank 1 have. But nobody goes on from a snapshot, or through a
// test, without rank 2; and what it had to say counts once, in the next iteration.
TEST_F(RunningStatisticsTest, ALateRankIsLeftOutOfTheMeanButNotOfSnapshotsAndTests) {
  constexpr int kRanks = 3;
  constexpr size_t kLate = 2, kIterations = 5;
  const auto batches = BatchesOf(kRanks, kIterations);
  std::vector<Statistics> expected;
  Statistics late;
  for (size_t i = 0; i < kIterations; ++i) {
    std::vector<Statistics> parts;
    for (const std::vector<Statistics>& batch : batches)
      parts.push_back(i == 0 ? batch[0] : Combined(kFade, expected.back(), 1, batch[i]));
    if (i == kLate + 1) parts.push_back(late);
    if (i == kLate) {
      late = parts.back();
      parts.pop_back();
    }
    expected.push_back(Mean(parts));
  }

  const SolverSpec spec = Normed("exchange: \"server\"");
  const std::string snapshot = (folder_ / "snap_iter_3.solverstate").string();
  TrainOptions options = Quiet();
  options.check_replicas = 0;  // all ranks wait for each other there
  options.bucket_mb = 1e-3;    // and where buckets are planned
  options.exchange_timeout = 1;
  std::atomic<bool> rank_2_came = false;
  std::vector<Weights<double>> at_snapshot(kRanks), at_end(kRanks);
  TestResult scores;
  RunRanks(
      kRanks,
      [&](Group& group) {
        const auto rank = static_cast<size_t>(group.rank());
        size_t iteration = 0;
        TrainOptions mine = options;
        mine.before_iteration = [&] {
          if (rank != 2 || iteration++ != kLate) return;
          for (int i = 0; i < 20000 && !std::filesystem::exists(snapshot); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (!std::filesystem::exists(snapshot))
            throw ConfigError("no snapshot without rank 2", "");
          std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time to go on without it
          rank_2_came = true;
        };
        Stream stream;
        Trainer<double> trainer(spec, mine, group, stream);
        trainer.Step(kLate + 1);
        EXPECT_FALSE(rank == 0 && rank_2_came);
        trainer.Snapshot();
        EXPECT_TRUE(rank_2_came) << "rank " << rank;
        ExpectNear(StatisticsOf(trainer), expected[kLate]);
        at_snapshot[rank] = WeightsOf(trainer);
        const std::vector<TestResult> tested = trainer.TestAll();
        if (rank == 0) scores = tested[0];
        for (size_t i = kLate + 1; i < kIterations; ++i) {
          trainer.Step(1);
          ExpectNear(StatisticsOf(trainer), expected[i]);
        }
        at_end[rank] = WeightsOf(trainer);
      },
      {.wait = 30});
  for (const size_t r : {1u, 2u}) {
    EXPECT_EQ(at_snapshot[r], at_snapshot[0]) << "rank " << r;
    EXPECT_EQ(at_end[r], at_end[0]) << "rank " << r;
  }
  options.snapshot = snapshot;
  RunRanks(1, [&](Group& group) {
    Stream stream;
    Trainer<double> trainer(spec, options, group, stream);
    EXPECT_EQ(trainer.solver().iteration(), kLate + 1);
    const TestResult alone = trainer.TestAll()[0];
    EXPECT_EQ(scores.batches, alone.batches);
    EXPECT_EQ(scores.batches.size(), 5u);
    EXPECT_EQ(WeightsOf(trainer), at_snapshot[0]);
  });
}

}  // namespace
}  // namespace carafe
