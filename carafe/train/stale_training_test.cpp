// Trainings through the stale server (--exchange=ssp): without staleness they end with the bits of
// allreduce, whatever the rule, the workers, the features of the net and the snapshots.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/update_rule.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

constexpr char kNothingElse[] = " test_initialization: false snapshot_after_train: false";

TrainOptions Ssp(int staleness = 0) {
  TrainOptions options = Quiet();
  options.exchange = "ssp";
  options.staleness = staleness;
  return options;
}
TrainOptions Allreduce() {
  TrainOptions options = Quiet();
  options.exchange = "allreduce";
  return options;
}

// Every rank runs the rule.
TrainOptions Arrival(int staleness = 0) {
  TrainOptions options = Ssp(staleness);
  options.server_update = ServerUpdate::kArrival;
  return options;
}
void ExpectNear(const Weights<float>& found, const Weights<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t b = 0; b < found.size(); ++b)
    for (size_t i = 0; i < found[b].size(); ++i)
      ASSERT_NEAR(found[b][i], expected[b][i], 1e-5) << "blob " << b << ", element " << i;
}

class StaleTraining : public SmallTraining {};

TEST_F(StaleTraining, WithoutStalenessEveryRuleHasTheBitsOfAllreduce) {
  const std::string clip = " clip_gradients: 0.5 iter_size: 2";
  for (const std::string& rule : RuleRegistry::Instance().Names()) {
    std::string settings = fmt::format("type: \"{}\" weight_decay: 0.01 delta: 1e-3", rule);
    if (RuleRegistry::Instance().Find(rule)->info.refuses != "momentum")
      settings += " momentum: 0.9";
    for (const std::string& more : {std::string(), clip}) {
      const SolverSpec spec = Spec(3, settings + more + kNothingElse, 5);
      for (const int ranks : {2, 3}) {
        SCOPED_TRACE(fmt::format("{}{} on {} ranks", settings, more, ranks));
        EXPECT_EQ(Train<float>(ranks, spec, Ssp()), Train<float>(ranks, spec, Allreduce()));
      }
    }
  }
}

TEST_F(StaleTraining, WithoutStalenessWorkersNormsAndFrozenLayersHaveTheBitsOfAllreduce) {
  for (const bool normed : {false, true})
    for (const bool frozen : {false, true}) {
      SolverSpec spec = Spec(2, std::string("momentum: 0.9 weight_decay: 0.01") + kNothingElse, 5);
      Change(spec, normed, frozen);
      for (const int workers : {1, 2})
        for (const bool overlap : {true, false}) {
          SCOPED_TRACE(fmt::format("normed {}, frozen {}, {} workers", normed, frozen, workers));
          TrainOptions ssp = Ssp(), allreduce = Allreduce();
          ssp.workers = allreduce.workers = workers;
          ssp.bucket_mb = 1e-3;
          ssp.overlap = overlap;
          EXPECT_EQ(Train<float>(4, spec, ssp), Train<float>(4, spec, allreduce));
        }
    }
}

// The first run ends after 4 of 8 iterations, and another one goes on from its snapshot.
TEST_F(StaleTraining, SnapshotsAreThoseOfAnyExchangeAndOfAnyNumberOfRanks) {
  for (const auto format : {SolverParameter::BINARYPROTO, SolverParameter::HDF5}) {
    const std::string settings = fmt::format(
        "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3 test_initialization: false "
        "snapshot_format: {}",
        SolverParameter::SnapshotFormat_Name(format));
    const auto run = [&](int ranks, TrainOptions options, int iterations, bool resume) {
      if (resume) options.snapshot = StatePath(4, format);
      options.global_batch = 12;
      return Train<float>(ranks, Spec(12, settings, iterations), options);
    };
    for (const int ranks : {2, 3}) {
      run(2, Allreduce(), 4, false);
      const Weights<float> expected = run(ranks, Allreduce(), 8, true);
      EXPECT_EQ(run(ranks, Ssp(), 8, true), expected) << "from allreduce to ssp";
      run(2, Ssp(), 4, false);
      EXPECT_EQ(run(ranks, Ssp(), 8, true), expected) << "from ssp to ssp";
      EXPECT_EQ(run(ranks, Allreduce(), 8, true), expected) << "from ssp to allreduce";
    }
    run(2, Ssp(2), 4, false);
    EXPECT_EQ(run(2, Allreduce(), 8, true), run(2, Ssp(), 8, true)) << "from a stale run";
  }
}

// The snapshot is restored into a training that has gone on.
TEST_F(StaleTraining, RestoresIntoARunningTraining) {
  const std::string settings = "momentum: 0.9 test_initialization: false snapshot: 4";
  RunRanks(2, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(Spec(3, settings, 8), Ssp(), group, stream);
    trainer.Step(8);
    const Weights<float> expected = WeightsOf(trainer);
    trainer.Restore(StatePath(4, SolverParameter::BINARYPROTO));
    trainer.Step(4);
    EXPECT_EQ(WeightsOf(trainer), expected);
    EXPECT_THAT(ErrorText<DataError>([&] { trainer.Restore("none.solverstate"); }),
                HasSubstr("none.solverstate"));
    EXPECT_EQ(WeightsOf(trainer), expected);
  });
}

// Replicas are equal whenever they are compared (Train does it at the end, and Quiet() every three
// iterations); tests and snapshots drain.
TEST_F(StaleTraining, WithStalenessTrainsTestsAndTakesSnapshots) {
  for (const int staleness : {1, 3, 20})
    for (const int workers : {1, 2}) {
      SCOPED_TRACE(fmt::format("staleness {}, {} workers", staleness, workers));
      SolverSpec spec =
          Spec(2, "momentum: 0.9 iter_size: 2 clip_gradients: 1 snapshot: 5 display: 5", 12);
      spec.param.set_lr_policy("plateau");
      spec.param.set_gamma(0.5);
      spec.param.add_plateau_winsize(2);
      spec.param.set_test_interval(4);
      Change(spec, /*normed=*/true, /*frozen=*/false);
      TrainOptions options = Ssp(staleness);
      options.workers = workers;
      const Weights<float> weights = Train<float>(3, spec, options);
      for (const std::vector<float>& blob : weights)
        for (const float value : blob) ASSERT_TRUE(std::isfinite(value));
    }
}

// Momentum is linear: the mean of the ranks' changes is the change by the mean gradient.
TEST_F(StaleTraining, WithoutStalenessUpdatesOnArrivalTrainMomentumAsByAllreduce) {
  for (const bool normed : {false, true})
    for (const int workers : {1, 2}) {
      SCOPED_TRACE(fmt::format("normed {}, {} workers", normed, workers));
      SolverSpec spec =
          Spec(2, std::string("momentum: 0.9 weight_decay: 0.01 iter_size: 2") + kNothingElse, 5);
      Change(spec, normed, /*frozen=*/true);
      TrainOptions arrival = Arrival(), allreduce = Allreduce();
      arrival.workers = allreduce.workers = workers;
      ExpectNear(Train<float>(3, spec, arrival), Train<float>(3, spec, allreduce));
    }
}

TEST_F(StaleTraining, SumsOfUpdatesAreThoseOfARateTimesTheRanks) {
  SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse, 5);
  TrainOptions sum = Arrival();
  sum.combine = Combine::kSum;
  const Weights<float> found = Train<float>(2, spec, sum);
  spec.param.set_base_lr(2 * spec.param.base_lr());
  ExpectNear(found, Train<float>(2, spec, Allreduce()));
}

// A snapshot has the mean of the ranks' histories, which is the history of the mean gradient.
TEST_F(StaleTraining, SnapshotsOfUpdatesOnArrivalAreThoseOfAnyExchange) {
  for (const auto format : {SolverParameter::BINARYPROTO, SolverParameter::HDF5}) {
    const std::string settings =
        fmt::format("momentum: 0.9 test_initialization: false snapshot_format: {}",
                    SolverParameter::SnapshotFormat_Name(format));
    const auto run = [&](int ranks, TrainOptions options, int iterations, bool resume) {
      if (resume) options.snapshot = StatePath(4, format);
      options.global_batch = 12;
      return Train<float>(ranks, Spec(12, settings, iterations), options);
    };
    run(2, Allreduce(), 4, false);
    const Weights<float> expected = run(3, Allreduce(), 8, true);
    ExpectNear(run(3, Arrival(), 8, true), expected);
    run(2, Arrival(), 4, false);
    ExpectNear(run(3, Arrival(), 8, true), expected);
    ExpectNear(run(3, Allreduce(), 8, true), expected);
    run(3, Arrival(2), 4, false);
    run(2, Arrival(1), 8, true);
  }
}

TEST_F(StaleTraining, EveryRuleTrainsWithUpdatesOnArrivalOrWithinABandwidth) {
  for (const std::string& rule : RuleRegistry::Instance().Names()) {
    SCOPED_TRACE(rule);
    std::string settings = fmt::format("type: \"{}\" weight_decay: 0.01 delta: 1e-3", rule);
    if (RuleRegistry::Instance().Find(rule)->info.refuses != "momentum")
      settings += " momentum: 0.9";
    SolverSpec spec = Spec(2, settings + " snapshot: 3 display: 4", 6);
    spec.param.set_test_interval(4);
    Change(spec, /*normed=*/true, /*frozen=*/false);
    TrainOptions options = Arrival(2);
    options.workers = 2;
    for (const Consistency consistency : {Consistency::kPush, Consistency::kManaged}) {
      options.consistency = consistency;
      if (consistency == Consistency::kManaged) {
        options.bandwidth_mbps = 500;
        options.send_order = SendOrder::kRelativeMagnitude;
      }
      for (const std::vector<float>& blob : Train<float>(3, spec, options))
        for (const float value : blob) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST_F(StaleTraining, ClippingIsRefusedWhereNobodyHasTheMeanGradient) {
  for (const int ranks : {1, 2})
    EXPECT_THAT(ErrorText<ConfigError>([&] {
                  Train<float>(ranks, Spec(3, std::string("clip_gradients: 1") + kNothingElse),
                               Arrival());
                }),
                HasSubstr("use --server_update=clock"));
}

TEST_F(StaleTraining, ABadLossStopsTheRunAndNamesItsIteration) {
  for (const int staleness : {0, 2, 20}) {  // 20: longer than the run, whose votes count at its end
    SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse, 6);
    spec.param.set_base_lr(1e30F);
    const std::string text = ErrorText<ConfigError>([&] { Train<float>(2, spec, Ssp(staleness)); });
    EXPECT_THAT(text, HasSubstr("the loss is NaN or infinite at iteration ")) << staleness;
  }
}

TEST_F(StaleTraining, RefusesWhatNeedsAllGradientsOnOneRank) {
  EXPECT_THAT(
      ErrorText<ConfigError>([&] { Train<float>(2, Spec(3, "snapshot_diff: true"), Ssp()); }),
      HasSubstr("snapshot_diff stores the updates of all parameters"));
  RunRanks(2, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(Spec(3, kNothingElse), Ssp(), group, stream);
    EXPECT_THAT(ErrorText<ConfigError>([&] {
                  trainer.solver().AddCallback({.on_start = [] {}, .on_gradients_ready = [] {}});
                }),
                HasSubstr("callbacks see the gradients of all parameters"));
    trainer.Step(2);
  });
  TrainOptions stale = Allreduce();
  stale.staleness = 1;
  for (const int ranks : {1, 2})
    EXPECT_THAT(ErrorText<ConfigError>([&] { Train<float>(ranks, Spec(3, kNothingElse), stale); }),
                HasSubstr("--exchange=allreduce is synchronous"));
}

TEST_F(StaleTraining, OneRankTrainsAsWithoutAnExchange) {
  const SolverSpec spec = Spec(6, std::string("momentum: 0.9") + kNothingElse);
  EXPECT_EQ(Train<float>(1, spec, Ssp(3)), Train<float>(1, spec, Allreduce()));
}

// Every rank keeps the history of its shards only.
TEST_F(StaleTraining, HistoryIsDividedAmongTheRanks) {
  constexpr int kRanks = 4;
  RunRanks(kRanks, [&](Group& group) {
    Stream stream;
    const SolverSpec spec = Spec(3, std::string("type: \"Adam\" momentum: 0.9") + kNothingElse);
    Trainer<float> trainer(spec, Ssp(), group, stream);
    trainer.Step(2);
    ASSERT_TRUE(trainer.solver().HistoryIsSharded());
    bool inside = false;
    trainer.solver().WithWholeHistory([&] {
      double squares = 0;
      for (const Blob<float>& blob : trainer.solver().history())
        for (const float value : blob.DataToHost(stream)) squares += double(value) * double(value);
      inside = true;
      EXPECT_EQ(squares > 0, group.rank() == 0) << "whole on rank 0 only";
    });
    EXPECT_TRUE(inside);
    for (const Blob<float>& blob : trainer.solver().history())
      EXPECT_THAT(blob.DataToHost(stream), ::testing::Each(0.f)) << "released";
  });
}

}  // namespace
}  // namespace carafe
