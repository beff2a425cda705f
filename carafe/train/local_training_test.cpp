// Trainings with --exchange=local: rounds, tests and snapshots at their ends, resuming, and the law
// "P ranks as one" where rounds have one step.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNothingElse[] = " test_initialization: false snapshot_after_train: false";

TrainOptions Local(int steps, double rate = 1, double momentum = 0) {
  TrainOptions options = Quiet();
  options.exchange = "local";
  options.local_steps = steps;
  options.outer_lr = rate;
  options.outer_momentum = momentum;
  return options;
}
TrainOptions Allreduce() {
  TrainOptions options = Quiet();
  options.exchange = "allreduce";
  return options;
}

class LocalTraining : public SmallTraining {};

// Plain SGD is linear in the gradient: the mean of the ranks' steps is the step of the mean.
TEST_F(LocalTraining, RoundsOfOneStepTrainAsAllreduceDoes) {
  for (const int workers : {1, 2})
    for (const char* more : {"", " iter_size: 2"}) {
      SolverSpec spec = Spec(7, std::string("weight_decay: 0.01") + more + kNothingElse, 6);
      TrainOptions local = Local(1), allreduce = Allreduce();
      local.workers = allreduce.workers = workers;
      local.global_batch = allreduce.global_batch = 13;  // uneven shares
      EXPECT_LT(Difference(Train<double>(3, spec, local), Train<double>(3, spec, allreduce)), 1e-12)
          << workers << " workers" << more;
    }
}

TEST_F(LocalTraining, OneRankIsATrainingAloneUnlessTheOuterStepIsAnother) {
  const SolverSpec spec = Spec(6, std::string("momentum: 0.9") + kNothingElse);
  const Weights<double> alone = Train<double>(1, spec, Allreduce());
  EXPECT_LT(Difference(Train<double>(1, spec, Local(3)), alone), 1e-12);
  EXPECT_GT(Difference(Train<double>(1, spec, Local(3, 0.5)), alone), 1e-4);
}

TEST_F(LocalTraining, LongerRoundsAndTheOuterStepChangeTheWeights) {
  const SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse);
  const Weights<float> one = Train<float>(2, spec, Local(1));
  const Weights<float> five = Train<float>(2, spec, Local(5));
  EXPECT_GT(Difference(one, five), 1e-4);
  EXPECT_GT(Difference(five, Train<float>(2, spec, Local(5, 0.7, 0.9))), 1e-4);
}

// Train compares the replicas at the end, and Quiet() every three iterations or at the next end of
// a round.
TEST_F(LocalTraining, GoesWithEverythingElse) {
  for (const int workers : {1, 2})
    for (const bool overlap : {true, false}) {
      SolverSpec spec =
          Spec(2, "momentum: 0.9 iter_size: 2 clip_gradients: 1 snapshot: 5 display: 3", 11);
      spec.param.set_lr_policy("plateau");
      spec.param.set_gamma(0.5);
      spec.param.add_plateau_winsize(2);
      spec.param.set_test_interval(3);
      Change(spec, /*normed=*/true, /*frozen=*/true);
      TrainOptions options = Local(4, 0.7, 0.9);
      options.workers = workers;
      options.overlap = overlap;
      options.bucket_mb = 1e-3;
      for (const std::vector<float>& blob : Train<float>(3, spec, options))
        for (const float value : blob) ASSERT_TRUE(std::isfinite(value));
    }
}

// snapshot: 3 is due at 3, 6 and 9; rounds end at 4, 8 and with the run.
TEST_F(LocalTraining, SnapshotsAndTestsWaitForTheEndOfTheRound) {
  std::vector<int64_t> tests;
  RunRanks(2, [&](Group& group) {
    Stream stream;
    SolverSpec spec = Spec(3, "momentum: 0.9 test_initialization: false snapshot: 3", 10);
    spec.param.set_test_interval(5);
    Trainer<float> trainer(spec, Local(4), group, stream);
    trainer.Run();
    if (group.rank() == 0) tests.push_back(trainer.state().tests_done());
  });
  std::vector<int> found;
  for (int i = 1; i <= 10; ++i)
    if (std::filesystem::exists(StatePath(i, SolverParameter::BINARYPROTO))) found.push_back(i);
  EXPECT_THAT(found, ElementsAre(4, 8, 10));
  EXPECT_THAT(tests, ElementsAre(2)) << "after iterations 8 and 10";
}

TEST_F(LocalTraining, ResumesWithTheSameBits) {
  for (const auto format : {SolverParameter::BINARYPROTO, SolverParameter::HDF5}) {
    const std::string settings = fmt::format(
        "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3 test_initialization: false "
        "snapshot_format: {}",
        SolverParameter::SnapshotFormat_Name(format));
    const auto run = [&](int ranks, TrainOptions options, int iterations, bool resume) {
      if (resume) options.snapshot = StatePath(4, format);
      options.global_batch = 12;
      SolverSpec spec = Spec(12, settings, iterations);
      Change(spec, /*normed=*/true, /*frozen=*/false);
      return Train<float>(ranks, spec, options);
    };
    for (const int ranks : {1, 3}) {
      const Weights<float> expected = run(ranks, Local(2, 0.7, 0.9), 8, false);
      run(ranks, Local(2, 0.7, 0.9), 4, false);
      EXPECT_EQ(run(ranks, Local(2, 0.7, 0.9), 8, true), expected) << ranks << " ranks";
    }
    // With other ranks, or another exchange, it goes on from the same weights.
    run(3, Local(2, 0.7, 0.9), 4, false);
    EXPECT_EQ(run(2, Local(2, 0.7, 0.9), 8, true), run(2, Local(2, 0.7, 0.9), 8, true));
    EXPECT_EQ(run(3, Allreduce(), 8, true), run(3, Allreduce(), 8, true));
  }
}

// Every rank begins with the mean of the stored histories.
TEST_F(LocalTraining, AnotherNumberOfRanksTakesTheMeanOfTheHistories) {
  const std::string settings = "momentum: 0.9 test_initialization: false";
  std::vector<std::vector<float>> stored(3), taken(2);
  const auto history = [](Trainer<float>& trainer) {
    std::vector<float> values;
    for (const Blob<float>& blob : trainer.solver().history())
      for (const float value : blob.DataToHost(trainer.solver().stream())) values.push_back(value);
    return values;
  };
  RunRanks(3, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(Spec(3, settings, 4), Local(4), group, stream);
    trainer.Run();
    stored[static_cast<size_t>(group.rank())] = history(trainer);
  });
  EXPECT_NE(stored[0], stored[1]);
  RunRanks(2, [&](Group& group) {
    Stream stream;
    TrainOptions options = Local(4);
    options.snapshot = StatePath(4, SolverParameter::BINARYPROTO);
    Trainer<float> trainer(Spec(3, settings, 8), options, group, stream);
    taken[static_cast<size_t>(group.rank())] = history(trainer);
  });
  EXPECT_EQ(taken[0], taken[1]);
  ASSERT_EQ(taken[0].size(), stored[0].size());
  for (size_t i = 0; i < taken[0].size(); ++i)
    EXPECT_FLOAT_EQ(taken[0][i], (stored[0][i] + stored[1][i] + stored[2][i]) / 3);
}

TEST_F(LocalTraining, RestoresIntoARunningTraining) {
  RunRanks(2, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(Spec(3, "momentum: 0.9 test_initialization: false snapshot: 4", 8),
                           Local(2, 0.7, 0.9), group, stream);
    trainer.Step(8);
    const Weights<float> expected = WeightsOf(trainer);
    trainer.Restore(StatePath(4, SolverParameter::BINARYPROTO));
    trainer.Step(4);
    EXPECT_EQ(WeightsOf(trainer), expected);
  });
}

// Also where the run ends inside a round.
TEST_F(LocalTraining, ABadLossStopsTheRun) {
  for (const int steps : {1, 3, 20}) {
    SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse, 6);
    spec.param.set_base_lr(1e30F);
    EXPECT_THAT(ErrorText<ConfigError>([&] { Train<float>(2, spec, Local(steps)); }),
                HasSubstr("the loss is NaN or infinite at iteration "))
        << steps;
  }
}

TEST_F(LocalTraining, RefusesWhatItCannotDo) {
  EXPECT_THAT(
      ErrorText<ConfigError>([&] { Train<float>(2, Spec(3, "snapshot_diff: true"), Local(2)); }),
      HasSubstr("snapshot_diff stores the updates of all parameters"));
  TrainOptions encoded = Local(2);
  encoded.wire = "bf16";
  EXPECT_THAT(ErrorText<ConfigError>([&] { Train<float>(2, Spec(3, kNothingElse), encoded); }),
              HasSubstr("--wire=bf16 is not for --exchange=local"));
  for (const char* name : {"local_steps", "outer_lr", "outer_momentum"}) {
    TrainOptions other = Allreduce();
    TrainTable().row(name).value.Set(other, name == std::string("local_steps") ? "2" : "0.5", name);
    EXPECT_THAT(ErrorText<ConfigError>([&] { Train<float>(1, Spec(3, kNothingElse), other); }),
                HasSubstr(fmt::format("--{} is for --exchange=local, not for allreduce", name)));
  }
  Group group;
  Stream stream;
  Trainer<float> trainer(Spec(3, kNothingElse), Local(2), group, stream);
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                trainer.solver().AddCallback({.on_start = [] {}, .on_gradients_ready = [] {}});
              }),
              HasSubstr("callbacks see the gradients of all parameters"));
}

}  // namespace
}  // namespace carafe
