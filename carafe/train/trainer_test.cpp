// The central law: 1 worker with batch P*K and P workers with batch K reach the same weights.
#include "carafe/train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "carafe/base/random.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/data/database_writer.h"
#include "carafe/net/plan.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot.h"

namespace carafe {
namespace {

constexpr int kRecords = 97;  // no batch divides it

// A small database of random pictures whose label is the brightest quarter, in a folder of its own.
class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name =
        fmt::format("carafe_{}_{}_{}", info->test_suite_name(), info->name(), getpid());
    std::ranges::replace(name, '/', '_');
    folder_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const auto writer = NewLmdbWriter((folder_ / "lmdb").string());
    RandomSequence random(7);
    for (int i = 0; i < kRecords; ++i) {
      Datum datum;
      datum.set_channels(1);
      datum.set_height(6);
      datum.set_width(6);
      const int label = static_cast<int>(random.NextBelow(4));
      std::string pixels;
      for (int y = 0; y < 6; ++y) {
        for (int x = 0; x < 6; ++x) {
          const bool bright = (y / 3) * 2 + x / 3 == label;
          pixels += static_cast<char>(random.NextBelow(100) + (bright ? 100 : 0));
        }
      }
      datum.set_data(pixels);
      datum.set_label(label);
      writer->Put(fmt::format("{:08}", i), datum.SerializeAsString());
    }
    writer->Finish();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Net(int batch, bool shuffle = true) const {
    return fmt::format(R"(
      name: "small"
      layer {{ name: "data" type: "Data" top: "data" top: "label"
        data_param {{ source: "{0}/lmdb" backend: LMDB batch_size: {1} shuffle: {2} }}
        transform_param {{ scale: 0.01 mirror: true crop_size: 5 mean_value: 90 }}
        include {{ phase: TRAIN }} }}
      layer {{ name: "data" type: "Data" top: "data" top: "label"
        data_param {{ source: "{0}/lmdb" backend: LMDB batch_size: 7 }}
        transform_param {{ scale: 0.01 crop_size: 5 mean_value: 90 }}
        include {{ phase: TEST }} }}
      layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param {{ num_output: 4 kernel_size: 3 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "conv" }}
      layer {{ name: "ip1" type: "InnerProduct" bottom: "conv" top: "ip1"
        param {{ lr_mult: 1 }} param {{ lr_mult: 2 decay_mult: 0 }}
        inner_product_param {{ num_output: 8 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "drop" type: "Dropout" bottom: "ip1" top: "ip1"
        dropout_param {{ dropout_ratio: 0.3 }} }}
      layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param {{ num_output: 4 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
        include {{ phase: TEST }} }}
      layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
    )",
                       folder_.string(), batch, shuffle);
  }
  SolverSpec Spec(int batch, const std::string& more, int iterations = 10) const {
    const std::string text = fmt::format(
        "net_param {{ {} }} base_lr: 0.05 lr_policy: \"inv\" gamma: 0.1 power: 0.5 max_iter: {} "
        "random_seed: 5 snapshot_prefix: \"{}/snap\" test_iter: 5 test_interval: 1000 {}",
        Net(batch), iterations, folder_.string(), more);
    return ParseSolverSpec(text, "solver.prototxt");
  }

  std::filesystem::path folder_;
};

TrainOptions Quiet() {
  TrainOptions options;
  options.write_files = false;
  options.watch_signals = false;
  options.check_replicas = 3;
  return options;
}

template <typename T>
using Weights = std::vector<std::vector<T>>;

template <typename T>
Weights<T> WeightsOf(Trainer<T>& trainer) {
  trainer.solver().Drain();
  Weights<T> weights;
  for (const Param<T>& param : trainer.solver().net().params()) {
    weights.push_back(param.blob->DataToHost(trainer.solver().stream()));
  }
  return weights;
}

// Runs the solver on P thread ranks; the replicas must end bit-equal.
template <typename T>
Weights<T> Train(int ranks, const SolverSpec& spec, const TrainOptions& options) {
  std::vector<Weights<T>> all(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Group& group) {
    Stream stream;
    Trainer<T> trainer(spec, options, group, stream);
    trainer.Run();
    all[static_cast<size_t>(group.rank())] = WeightsOf(trainer);
  });
  for (int r = 1; r < ranks; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], all[0]) << "rank " << r;
  return all[0];
}

// max |a - b| / max |a| over the blobs.
template <typename T>
double Difference(const Weights<T>& a, const Weights<T>& b) {
  double worst = 0;
  for (size_t p = 0; p < a.size(); ++p) {
    double largest = 0, off = 0;
    for (size_t i = 0; i < a[p].size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(a[p][i])));
      off = std::max(off, std::fabs(static_cast<double>(a[p][i]) - static_cast<double>(b[p][i])));
    }
    if (largest > 0) worst = std::max(worst, off / largest);
  }
  return worst;
}

struct LawCase {
  const char* name;
  const char* settings;
};

const LawCase kLaws[] = {
    {"Sgd", "momentum: 0.9 weight_decay: 0.01"},
    {"SgdIterSize2", "momentum: 0.9 weight_decay: 0.01 iter_size: 2"},
    {"SgdClipped", "momentum: 0.9 clip_gradients: 0.5"},
    {"SgdClippedIterSize2L1",
     "momentum: 0.9 clip_gradients: 0.5 iter_size: 2 weight_decay: 0.01 regularization_type: "
     "\"L1\""},
    {"Nesterov", "type: \"Nesterov\" momentum: 0.9"},
    {"AdaGrad", "type: \"AdaGrad\""},
    {"RMSProp", "type: \"RMSProp\" rms_decay: 0.9 delta: 1e-3"},
    {"AdaDelta", "type: \"AdaDelta\" momentum: 0.95 delta: 1e-4"},
    {"Adam", "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3"},
    {"AdamW", "type: \"AdamW\" momentum: 0.9 momentum2: 0.99 delta: 1e-3 weight_decay: 0.01"},
    {"LARS", "type: \"LARS\" momentum: 0.9 weight_decay: 0.01 trust_coefficient: 0.1"},
    {"LARSClippedIterSize2",
     "type: \"LARS\" momentum: 0.9 weight_decay: 0.01 clip_gradients: 0.5 iter_size: 2"},
    {"LAMB", "type: \"LAMB\" momentum: 0.9 momentum2: 0.99 delta: 1e-3 weight_decay: 0.01"},
};

class LawTest : public TrainerTest, public ::testing::WithParamInterface<LawCase> {};

TEST_P(LawTest, PWorkersReachTheWeightsOfOneWithTheGlobalBatch) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const Weights<double> one = Train<double>(1, Spec(3 * ranks, GetParam().settings), Quiet());
    const Weights<double> many = Train<double>(ranks, Spec(3, GetParam().settings), Quiet());
    EXPECT_LE(Difference(one, many), 1e-10) << ranks << " ranks";
  }
}
INSTANTIATE_TEST_SUITE_P(AllRules, LawTest, ::testing::ValuesIn(kLaws),
                         [](const auto& info) { return std::string(info.param.name); });

// Every scheme, with and without overlap, on ranks and on ranks times workers: the law holds, and
// all that have the same number of workers in all end with the same bits.
TEST_F(TrainerTest, SchemesAndSplitsReachTheWeightsOfOneWorker) {
  struct Split {
    int ranks, workers;
  };
  const std::vector<Split> splits = {{2, 1}, {1, 2}, {3, 1}, {4, 1},
                                     {2, 2}, {1, 4}, {5, 1}, {8, 1}};
  for (const char* settings :
       {"momentum: 0.9 weight_decay: 0.01 iter_size: 2", "momentum: 0.9 clip_gradients: 0.5",
        "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3"}) {
    std::map<int, Weights<double>> by_total;
    for (const Split& split : splits) {
      const int total = split.ranks * split.workers;
      const Weights<double> one = Train<double>(1, Spec(3 * total, settings), Quiet());
      for (const char* scheme : {"allreduce", "server", "tree"})
        for (const bool overlap : {true, false}) {
          TrainOptions options = Quiet();
          options.exchange = scheme;
          options.workers = split.workers;
          options.overlap = overlap;
          options.bucket_mb = 1e-3;
          const Weights<double> many = Train<double>(split.ranks, Spec(3, settings), options);
          EXPECT_LE(Difference(one, many), 1e-10)
              << scheme << ' ' << split.ranks << " x " << split.workers;
          const auto [first, is_new] = by_total.emplace(total, many);
          EXPECT_EQ(many, first->second) << scheme << ' ' << split.ranks << " x " << split.workers;
        }
    }
  }
}

// Streams of an LSTM are dealt over the workers, their states stay with them, and a weight that two
// layers share gets both gradients.
TEST_F(TrainerTest, RecurrentNetsWithSharedWeightsReachTheWeightsOfOneWorker) {
  const auto writer = NewLmdbWriter((folder_ / "text").string());
  RandomSequence random(11);
  for (int i = 0; i < 480; ++i) {
    Datum datum;
    datum.set_channels(2);
    datum.set_height(1);
    datum.set_width(1);
    datum.add_float_data(static_cast<float>(random.NextBelow(5)));
    datum.add_float_data(random.NextBelow(6) > 0 ? 1.f : 0.f);  // whether the stream goes on
    datum.set_label(static_cast<int>(random.NextBelow(5)));
    writer->Put(fmt::format("{:08}", i), datum.SerializeAsString());
  }
  writer->Finish();
  const auto spec = [&](int streams) {
    const std::string net = fmt::format(R"(
      layer {{ name: "text" type: "Data" top: "record" top: "label"
        data_param {{ source: "{}/text" backend: LMDB batch_size: {} }} }}
      layer {{ name: "parts" type: "Slice" bottom: "record" top: "flat" top: "flat_cont"
        slice_param {{ axis: 1 }} }}
      layer {{ name: "input" type: "Reshape" bottom: "flat" top: "input"
        reshape_param {{ shape {{ dim: 4 dim: -1 }} }} }}
      layer {{ name: "cont" type: "Reshape" bottom: "flat_cont" top: "cont"
        reshape_param {{ shape {{ dim: 4 dim: -1 }} }} }}
      layer {{ name: "embed" type: "Embed" bottom: "input" top: "embed" embed_param {{
        input_dim: 5 num_output: 6 weight_filler {{ type: "uniform" min: -1 max: 1 }} }} }}
      layer {{ name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "lstm"
        recurrent_param {{ num_output: 6 weight_filler {{ type: "uniform" min: -1 max: 1 }} }} }}
      layer {{ name: "a" type: "InnerProduct" bottom: "lstm" top: "a" param {{ name: "w" }}
        inner_product_param {{ num_output: 6 axis: 2 bias_term: false
          weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "b" type: "InnerProduct" bottom: "a" top: "b" param {{ name: "w" }}
        inner_product_param {{ num_output: 6 axis: 2 bias_term: false }} }}
      layer {{ name: "c" type: "InnerProduct" bottom: "b" top: "c"
        inner_product_param {{ num_output: 5 axis: 2 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "scores" type: "Reshape" bottom: "c" top: "scores"
        reshape_param {{ shape {{ dim: -1 dim: 5 }} }} }}
      layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }}
    )",
                                        folder_.string(), 4 * streams);
    return ParseSolverSpec(
        fmt::format(
            "net_param {{ {} }} base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 max_iter: 10 "
            "random_seed: 5 snapshot_prefix: \"{}/snap\"",
            net, folder_.string()),
        "solver.prototxt");
  };
  struct Split {
    int ranks, workers;
  };
  for (const Split& split : {Split{2, 1}, Split{3, 1}, Split{1, 2}, Split{2, 2}}) {
    const Weights<double> one = Train<double>(1, spec(2 * split.ranks * split.workers), Quiet());
    for (const char* scheme : {"allreduce", "server", "tree"}) {
      TrainOptions options = Quiet();
      options.exchange = scheme;
      options.workers = split.workers;
      EXPECT_LE(Difference(one, Train<double>(split.ranks, spec(2), options)), 1e-10)
          << scheme << ' ' << split.ranks << " x " << split.workers;
    }
  }
}

TEST_F(TrainerTest, GlobalBatchIsDividedEvenWhereItDoesNotDivide) {
  const Weights<double> one = Train<double>(1, Spec(10, "momentum: 0.9"), Quiet());
  TrainOptions options = Quiet();
  options.global_batch = 10;
  for (const int ranks : {2, 3, 4}) {
    EXPECT_LE(Difference(one, Train<double>(ranks, Spec(64, "momentum: 0.9"), options)), 1e-10)
        << ranks << " ranks";
  }
}

TEST_F(TrainerTest, OverlapAndBucketsChangeNoBit) {
  const Weights<float> plain = Train<float>(3, Spec(4, "momentum: 0.9"), Quiet());
  TrainOptions options = Quiet();
  options.overlap = false;
  EXPECT_EQ(Train<float>(3, Spec(4, "momentum: 0.9"), options), plain);
  options.bucket_mb = 1e-5;
  options.overlap = true;
  EXPECT_EQ(Train<float>(3, Spec(4, "momentum: 0.9"), options), plain);
}

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

TEST_F(TrainerTest, ReplicasWithBatchNormStayEqualAndAverageTheirStatistics) {
  SolverSpec spec = Spec(4, "momentum: 0.9");
  NetParameter& net = *spec.param.mutable_net_param();
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.name() != "relu") continue;
    layer.set_name("norm");
    layer.set_type("BatchNorm");
    layer.clear_relu_param();
  }
  // Train compares all blobs of all ranks bit by bit, the running statistics among them.
  const Weights<float> two = Train<float>(2, spec, Quiet());
  const Weights<float> one = Train<float>(1, spec, Quiet());
  // f' = 0.999 f + 1, whatever the data: after 10 iterations the same on any number of ranks.
  EXPECT_FLOAT_EQ(two[4][0], one[4][0]);
  EXPECT_NE(two[2], one[2]);
}

TEST_F(TrainerTest, SynchronousBatchNormMakesWorkersEqualToOne) {
  const auto with_norm = [&](int batch, const std::string& more) {
    SolverSpec spec = Spec(batch, "momentum: 0.9 " + more);
    for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer()) {
      // Below BatchNorm a bias has no gradient but rounding.
      if (layer.name() == "conv") layer.mutable_convolution_param()->set_bias_term(false);
      if (layer.name() != "relu") continue;
      layer.set_name("norm");
      layer.set_type("BatchNorm");
      layer.mutable_batch_norm_param()->mutable_scale_filler()->set_value(1);
    }
    return spec;
  };
  struct Split {
    int ranks, workers;
  };
  for (const Split& split : {Split{2, 1}, Split{3, 1}, Split{1, 2}, Split{2, 2}}) {
    const int total = split.ranks * split.workers;
    const Weights<double> one = Train<double>(1, with_norm(3 * total, ""), Quiet());
    TrainOptions options = Quiet();
    options.workers = split.workers;
    EXPECT_LE(
        Difference(one, Train<double>(split.ranks, with_norm(3, "sync_batch_norm: true"), options)),
        1e-10)
        << split.ranks << " x " << split.workers;
    EXPECT_GT(Difference(one, Train<double>(split.ranks, with_norm(3, ""), options)), 1e-6);
  }
  // Rows that cannot be dealt out evenly.
  TrainOptions options = Quiet();
  options.global_batch = 10;
  options.sync_batch_norm = true;
  EXPECT_LE(Difference(Train<double>(1, with_norm(10, ""), Quiet()),
                       Train<double>(3, with_norm(64, ""), options)),
            1e-10);
}

// A record that only worker 1 reads is broken. Worker 0 waits for it in the sums of BatchNorm, and
// must not wait for ever.
TEST_F(TrainerTest, AWorkerThatFailsEndsThoseThatWaitForIt) {
  const auto writer = NewLmdbWriter((folder_ / "broken").string());
  for (int i = 0; i < 12; ++i) {
    Datum datum;
    datum.set_channels(i == 5 ? 2 : 1);
    datum.set_height(6);
    datum.set_width(6);
    datum.set_data(std::string(static_cast<size_t>(36 * datum.channels()), '\1'));
    writer->Put(fmt::format("{:08}", i), datum.SerializeAsString());
  }
  writer->Finish();
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
  setenv("CARAFE_ALGORITHM", "measure", 1);
  SolverSpec spec = Spec(4, "", 2);
  Train<float>(1, spec, Quiet());
  const std::string path = spec.param.snapshot_prefix() + "_iter_2.solverstate";
  const auto plan = [&] {
    Stream stream;
    Solver<float> solver(spec, stream, {});
    return ReadSnapshot(path, solver)->plan();
  };
  const std::string measured = plan();
  const size_t line = measured.find("=direct"), end = measured.find('\n') + 1;
  EXPECT_EQ(ChoicesToText(ChoicesFromText(measured.substr(end))), measured.substr(end));
  EXPECT_FALSE(ChoicesFromText(measured.substr(end)).empty()) << measured;
  ASSERT_NE(line, std::string::npos) << measured;
  {  // the same line with an algorithm that is not the measured one
    SolverState state;
    std::ifstream in(path, std::ios::binary);
    ASSERT_TRUE(state.ParseFromIstream(&in));
    state.mutable_carafe()->set_plan(std::string(measured).replace(line, 7, "=winograd2x2"));
    std::ofstream out(path, std::ios::binary);
    ASSERT_TRUE(state.SerializeToOstream(&out));
  }
  const std::string changed = plan();
  ASSERT_NE(changed, measured);
  TrainOptions options = Quiet();
  options.snapshot = path;
  spec.param.set_max_iter(3);
  RunRanks(1, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    trainer.Snapshot();  // of iteration 2 again
  });
  EXPECT_EQ(plan(), changed);
  unsetenv("CARAFE_ALGORITHM");
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
  options.on_nan = "continue";
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
    options.lr_scaling = "linear";
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
