// The loop of a run and its borders: tests, snapshots, resuming, what ends it.
#include "carafe/train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "carafe/comm/run_ranks.h"
#include "carafe/net/plan.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/state_checksum.h"
#include "carafe/solvers/state_file.h"
#include "carafe/solvers/training_state.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

class TrainerTest : public SmallTraining {};

TEST_F(TrainerTest, TestScoresOfSeveralRanksAreThoseOfOneToTheLastDigit) {
  std::vector<TestResult> results;
  std::mutex mutex;
  for (const int ranks : {1, 2, 3}) {
    RunRanks(ranks, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(Spec(4, ""), Quiet(), group, stream);
      trainer.TestAll();
      const auto scores = trainer.TestAll();  // the second test goes on in the data
      if (group.rank() != 0) return;
      const std::lock_guard lock(mutex);
      results.push_back(scores[0]);
    });
  }
  ASSERT_EQ(results.size(), 3u);
  ASSERT_EQ(results[0].scores.size(), 2u);
  for (size_t i : {1u, 2u}) {
    EXPECT_EQ(results[i].loss, results[0].loss);
    EXPECT_EQ(results[i].batches, results[0].batches);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(results[i].scores[s].value, results[0].scores[s].value);
    }
  }
}

TEST_F(TrainerTest, ResumingGivesTheWeightsOfTheUninterruptedRunBitForBit) {
  for (const int ranks : {1, 3}) {
    const std::string rule = "type: \"Adam\" momentum: 0.9 iter_size: 2 ";
    const Weights<float> whole = Train<float>(ranks, Spec(4, rule, 20), Quiet());
    Train<float>(ranks, Spec(4, rule, 10), Quiet());
    TrainOptions options = Quiet();
    options.snapshot = (folder_ / "snap_iter_10.solverstate").string();
    EXPECT_EQ(Train<float>(ranks, Spec(4, rule, 20), options), whole) << ranks << " ranks";
  }
}

TEST_F(TrainerTest, ResumingOnOtherRanksGoesOnAtTheSameSample) {
  // 2 x 6 and 3 x 4 rows are the same global batch: the law holds across the change.
  const Weights<double> whole = Train<double>(1, Spec(12, "momentum: 0.9", 20), Quiet());
  Train<double>(2, Spec(6, "momentum: 0.9", 10), Quiet());
  TrainOptions options = Quiet();
  options.snapshot = "auto";
  EXPECT_LE(Difference(whole, Train<double>(3, Spec(4, "momentum: 0.9", 20), options)), 1e-10);
  // With another global batch, the next record is still the one that comes next.
  std::filesystem::remove(folder_ / "snap_iter_20.solverstate");
  RunRanks(1, [&](Group& group) {
    Stream stream;
    Trainer<double> trainer(Spec(5, "momentum: 0.9", 20), options, group, stream);
    EXPECT_EQ(trainer.solver().iteration(), 10);
    EXPECT_EQ(trainer.solver().sample_offset() + 10 * 5, 10 * 12);
  });
}

// All ranks judge the mean loss, so they lower the rate in the same iteration; a resumed run knows
// how long the plateau has lasted.
TEST_F(TrainerTest, PlateausAreTheSameOnAllRanksAndOutliveASnapshot) {
  const auto spec = [&](int iterations) {
    SolverSpec result = Spec(4, "average_loss: 2", iterations);
    result.param.set_lr_policy("plateau");
    result.param.set_gamma(0.5);
    for (int i = 0; i < 3; ++i) result.param.add_plateau_winsize(3);
    return result;
  };
  const auto run = [&](int iterations, const TrainOptions& options) {
    std::vector<int> steps(3);
    Weights<float> weights;
    RunRanks(3, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(spec(iterations), options, group, stream);
      trainer.Run();
      steps[static_cast<size_t>(group.rank())] = trainer.solver().learning_rate().current_step();
      const Weights<float> mine = WeightsOf(trainer);
      if (group.rank() == 0) weights = mine;
    });
    for (const int step : steps) EXPECT_EQ(step, steps[0]);
    return std::make_pair(steps[0], weights);
  };
  const auto whole = run(30, Quiet());
  EXPECT_GT(whole.first, 0);
  run(10, Quiet());
  TrainOptions options = Quiet();
  options.snapshot = (folder_ / "snap_iter_10.solverstate").string();
  EXPECT_EQ(run(30, options), whole);
}

// A record that only worker 1 reads is broken. Worker 0 waits for it in the sums of BatchNorm, and
// must not wait forever.
TEST_F(TrainerTest, AWorkerThatFailsEndsThoseThatWaitForIt) {
  std::vector<Datum> records(12);
  for (Datum& datum : records) {
    datum.set_channels(&datum == &records[5] ? 2 : 1);
    datum.set_height(6);
    datum.set_width(6);
    datum.set_data(std::string(static_cast<size_t>(36 * datum.channels()), '\1'));
  }
  WriteDatabase("broken", records);
  SolverSpec spec = Spec(1, "sync_batch_norm: true");
  for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer()) {
    if (layer.name() == "relu") layer.set_type("BatchNorm");
    if (layer.name() != "data" || layer.include(0).phase() != TRAIN) continue;
    layer.mutable_data_param()->set_source((folder_ / "broken").string());
    layer.mutable_data_param()->set_shuffle(false);
  }
  TrainOptions options = Quiet();
  options.workers = 2;  // record 5 is worker 1's third
  for (const int ranks : {1, 2}) {
    try {
      Train<float>(ranks, spec, options);
      FAIL() << "no error on " << ranks << " ranks";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("\"conv\""), std::string::npos) << error.what();
    }
  }
}

TEST_F(TrainerTest, RestoringGivesEveryWorkerTheRunningStatistics) {
  SolverSpec spec = Spec(4, "momentum: 0.9", 10);
  for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer())
    if (layer.name() == "relu") layer.set_type("BatchNorm");
  TrainOptions options = Quiet();
  options.workers = 2;
  const Weights<float> whole = Train<float>(1, spec, options);  // and leaves a snapshot
  spec.param.set_max_iter(5);
  spec.param.set_snapshot_prefix((folder_ / "half").string());
  Train<float>(1, spec, options);
  spec.param.set_max_iter(10);
  RunRanks(1, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    trainer.Step(2);  // somewhere else
    trainer.Restore((folder_ / "half_iter_5.solverstate").string());
    trainer.Run();
    EXPECT_EQ(WeightsOf(trainer), whole);
  });
}

// What was measured in one run is what the next one takes, without measuring again: a line that the
// snapshot has otherwise stays so.
TEST_F(TrainerTest, MeasuredAlgorithmsAreKeptInTheSnapshot) {
  TrainOptions options = Quiet();
  options.algorithm = "measure";
  SolverSpec spec = Spec(4, "", 2);
  Train<float>(1, spec, options);
  const std::string path = spec.param.snapshot_prefix() + "_iter_2.solverstate";
  const auto plan = [&] {
    return ConvolutionLines(FromStateHead(OpenStateFile(path).head).training_plan());
  };
  const std::string measured = plan();
  const size_t line = measured.find("=direct");
  EXPECT_EQ(ChoicesToText(ChoicesFromText(measured)), measured);
  EXPECT_FALSE(ChoicesFromText(measured).empty()) << measured;
  ASSERT_NE(line, std::string::npos) << measured;
  {  // the same line with an algorithm that is not the measured one
    StateHead state;
    std::ifstream in(path, std::ios::binary);
    ASSERT_TRUE(state.ParseFromIstream(&in));
    SetConvolutionLines(std::string(measured).replace(line, 7, "=winograd2x2"),
                        state.mutable_carafe()->mutable_training_plan());
    state.GetReflection()->MutableUnknownFields(&state)->DeleteByNumber(10003);  // the checksum
    std::ofstream out(path, std::ios::binary);
    ASSERT_TRUE(state.SerializeToOstream(&out));
    out.close();
    AppendStateChecksum(path);
  }
  const std::string changed = plan();
  ASSERT_NE(changed, measured);
  options.snapshot = path;
  spec.param.set_max_iter(3);
  RunRanks(1, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    trainer.Snapshot();  // of iteration 2 again
  });
  EXPECT_EQ(plan(), changed);
}

TEST_F(TrainerTest, StopsAtANaNNamingIterationAndBlob) {
  SolverSpec spec = Spec(4, "");
  spec.param.set_base_lr(1e30f);
  for (const int ranks : {1, 2}) {
    try {
      Train<float>(ranks, spec, Quiet());
      FAIL() << "the loss stayed finite";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the loss is NaN or infinite at iteration"),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("first in blob \""), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(TrainerTest, GoesOnAfterANaNWhenAskedTo) {
  SolverSpec spec = Spec(4, "");
  spec.param.set_base_lr(1e30f);
  TrainOptions options = Quiet();
  options.on_nan = OnNan::kContinue;
  options.check_replicas = 0;  // a NaN is not equal to itself
  RunRanks(2, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    EXPECT_EQ(trainer.Run(), TrainEnd::kDone);
    EXPECT_EQ(trainer.solver().iteration(), 10);
  });
}

TEST_F(TrainerTest, AReplicaThatDiffersIsNamedWithItsBlob) {
  std::string text;
  try {
    RunRanks(3, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(Spec(4, ""), Quiet(), group, stream);  // compares every 3 iterations
      trainer.Step(1);
      if (group.rank() == 2) {
        Blob<float>& bias = *trainer.solver().net().params()[3].blob;
        std::vector<float> values = bias.DataToHost(stream);
        values[5] += 1e-6f;
        bias.SetData(stream, values);
      }
      trainer.Step(5);
    });
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("after iteration 3 rank 2 (on "), std::string::npos) << text;
  EXPECT_NE(text.find("differs from rank 0 in parameter ip1/1"), std::string::npos) << text;
}

TEST_F(TrainerTest, LinearScalingAndWarmupRaiseTheRate) {
  RunRanks(2, [&](Group& group) {
    Stream stream;
    TrainOptions options = Quiet();
    options.lr_scaling = LrScaling::kLinear;
    options.warmup = 4;
    SolverSpec spec = Spec(4, "", 6);
    spec.param.set_lr_policy("fixed");
    Trainer<float> trainer(spec, options, group, stream);
    trainer.Step(1);
    EXPECT_NEAR(trainer.solver().rate(), 0.05 * 1.25, 1e-7);
    trainer.Step(4);
    EXPECT_NEAR(trainer.solver().rate(), 0.05 * 2, 1e-7);
  });
}

}  // namespace
}  // namespace carafe
