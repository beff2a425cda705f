#include "tests/support/small_training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "carafe/base/random.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/data/database_writer.h"
#include "carafe/solvers/snapshot.h"

namespace carafe {

constexpr int kRecords = 97;  // no batch divides it

void SmallTraining::SetUp() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name =
      fmt::format("carafe_{}_{}_{}", info->test_suite_name(), info->name(), getpid());
  std::ranges::replace(name, '/', '_');
  folder_ = std::filesystem::temp_directory_path() / name;
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  WriteDatabase("lmdb", Pictures());
}

// The label is the brightest quarter.
std::vector<Datum> SmallTraining::Pictures() {
  std::vector<Datum> pictures;
  RandomSequence random(7);
  for (int i = 0; i < kRecords; ++i) {
    Datum& datum = pictures.emplace_back();
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
  }
  return pictures;
}

void SmallTraining::WriteDatabase(const std::string& name,
                                  const std::vector<Datum>& records) const {
  const auto writer = NewLmdbWriter((folder_ / name).string());
  for (size_t i = 0; i < records.size(); ++i)
    writer->Put(fmt::format("{:08}", i), records[i].SerializeAsString());
  writer->Finish();
}

void SmallTraining::TearDown() { std::filesystem::remove_all(folder_); }

std::string SmallTraining::Net(int batch, bool shuffle) const {
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

SolverSpec SmallTraining::Spec(int batch, const std::string& more, int iterations) const {
  const std::string text = fmt::format(
      "net_param {{ {} }} base_lr: 0.05 lr_policy: \"inv\" gamma: 0.1 power: 0.5 max_iter: {} "
      "random_seed: 5 snapshot_prefix: \"{}/snap\" test_iter: 5 test_interval: 1000 {}",
      Net(batch), iterations, folder_.string(), more);
  return ParseSolverSpec(text, "solver.prototxt");
}

void SmallTraining::Change(SolverSpec& spec, bool normed, bool frozen) {
  for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer()) {
    if (frozen && layer.name() == "conv") layer.add_param()->set_lr_mult(0);
    if (!normed || layer.name() != "relu") continue;
    layer.set_name("norm");
    layer.set_type("BatchNorm");
  }
}

std::string SmallTraining::StatePath(int iteration, SolverParameter::SnapshotFormat format) const {
  return SnapshotNames((folder_ / "snap").string(), iteration, format).state;
}

TrainOptions Quiet() {
  TrainOptions options;
  options.write_files = false;
  options.watch_signals = false;
  options.progress = ProgressMode::kNone;
  options.check_replicas = 3;
  return options;
}

template <typename T>
Weights<T> WeightsOf(Trainer<T>& trainer) {
  trainer.solver().Drain();
  Weights<T> weights;
  for (const Param<T>& param : trainer.solver().net().params()) {
    weights.push_back(param.blob->DataToHost(trainer.solver().stream()));
  }
  return weights;
}

template <typename T>
Weights<T> Train(int ranks, const SolverSpec& spec, const TrainOptions& options,
                 const RankLink& link) {
  std::vector<Weights<T>> all(static_cast<size_t>(ranks));
  RunRanks(
      ranks,
      [&](Group& group) {
        Stream stream;
        Trainer<T> trainer(spec, options, group, stream);
        trainer.Run();
        all[static_cast<size_t>(group.rank())] = WeightsOf(trainer);
      },
      {}, link);
  for (int r = 1; r < ranks; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], all[0]) << "rank " << r;
  return all[0];
}

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

template Weights<float> WeightsOf(Trainer<float>&);
template Weights<double> WeightsOf(Trainer<double>&);
template Weights<float> Train(int, const SolverSpec&, const TrainOptions&, const RankLink&);
template Weights<double> Train(int, const SolverSpec&, const TrainOptions&, const RankLink&);
template double Difference(const Weights<float>&, const Weights<float>&);
template double Difference(const Weights<double>&, const Weights<double>&);

}  // namespace carafe
