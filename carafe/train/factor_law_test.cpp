// The law '1 against P' (law_test.cpp) where weight gradients are exchanged as factors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

constexpr char kNothingElse[] = " test_initialization: false snapshot_after_train: false";

struct FactorCase {
  const char* name;
  const char* settings;
  const char* ip2 = nullptr;  // the text of layer ip2 instead
};
void PrintTo(const FactorCase& c, std::ostream* out) { *out << c.name; }

const FactorCase kCases[] = {
    {"Sgd", "momentum: 0.9 weight_decay: 0.01"},
    {"IterSize2", "momentum: 0.9 iter_size: 2"},
    {"Clipped", "momentum: 0.9 clip_gradients: 0.5"},
    {"AdamClippedIterSize2",
     "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3 clip_gradients: 0.5 iter_size: 2"},
    {"Nesterov", "type: \"Nesterov\" momentum: 0.9 weight_decay: 0.01"},
    {"LARS", "type: \"LARS\" momentum: 0.9 weight_decay: 0.01 trust_coefficient: 0.1"},
    {"Transposed", "momentum: 0.9", R"(
      layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param { num_output: 4 transpose: true weight_filler { type: "xavier" } } })"},
    {"SharedWeights", "momentum: 0.9 iter_size: 2", R"(
      layer { name: "a" type: "InnerProduct" bottom: "ip1" top: "a" param { name: "w" }
        inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
      layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" }
        inner_product_param { num_output: 8 bias_term: false } }
      layer { name: "ip2" type: "InnerProduct" bottom: "b" top: "ip2" param { lr_mult: 0 }
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })"},
    {"RowsOfSteps", "momentum: 0.9", R"(
      layer { name: "steps" type: "Reshape" bottom: "ip1" top: "steps"
        reshape_param { shape { dim: 0 dim: 2 dim: 4 } } }
      layer { name: "a" type: "InnerProduct" bottom: "steps" top: "a"
        inner_product_param { num_output: 3 axis: 2 weight_filler { type: "xavier" } } }
      layer { name: "ip2" type: "InnerProduct" bottom: "a" top: "ip2"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })"},
    {"ConvolutionOfTheWholeImage", "momentum: 0.9", R"(
      layer { name: "image" type: "Reshape" bottom: "ip1" top: "image"
        reshape_param { shape { dim: 0 dim: 2 dim: 2 dim: 2 } } }
      layer { name: "a" type: "Convolution" bottom: "image" top: "a" convolution_param {
        num_output: 5 kernel_size: 2 weight_filler { type: "xavier" } } }
      layer { name: "ip2" type: "InnerProduct" bottom: "a" top: "ip2"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })"},
};

class FactorLawTest : public SmallTraining, public ::testing::WithParamInterface<FactorCase> {
 protected:
  SolverSpec SpecOf(int batch) const {
    SolverSpec spec = Spec(batch, std::string(GetParam().settings) + kNothingElse);
    if (GetParam().ip2 == nullptr) return spec;
    NetParameter& net = *spec.param.mutable_net_param();
    const NetParameter other = ParseNetSpec(GetParam().ip2, "ip2.prototxt").param;
    NetParameter replaced = net;
    replaced.clear_layer();
    for (const LayerParameter& layer : net.layer()) {
      if (layer.name() == "ip2") {
        replaced.mutable_layer()->MergeFrom(other.layer());
      } else {
        *replaced.add_layer() = layer;
      }
    }
    net = replaced;
    return spec;
  }
};

TrainOptions Sfb() {
  TrainOptions options = Quiet();
  options.exchange = "sfb";
  options.bucket_mb = 1e-3;  // several buckets
  return options;
}

// All splits into ranks and workers and every overlap multiply the same rows in the same order.
TEST_P(FactorLawTest, RanksAndWorkersReachTheWeightsOfOne) {
  struct Split {
    int ranks, workers;
  };
  for (const std::vector<Split>& splits :
       std::vector<std::vector<Split>>{{{2, 1}}, {{3, 1}}, {{4, 1}, {2, 2}}, {{8, 1}, {4, 2}}}) {
    const int total = splits[0].ranks;
    const Weights<double> one = Train<double>(1, SpecOf(3 * total), Quiet());
    Weights<double> first;
    for (const Split& split : splits)
      for (const bool overlap : {true, false}) {
        SCOPED_TRACE(fmt::format("{} x {}, overlap {}", split.ranks, split.workers, overlap));
        TrainOptions options = Sfb();
        options.overlap = overlap;
        options.workers = split.workers;
        const Weights<double> many = Train<double>(split.ranks, SpecOf(3), options);
        EXPECT_LE(Difference(one, many), 1e-10);
        if (first.empty()) first = many;
        EXPECT_EQ(many, first);
      }
  }
}
INSTANTIATE_TEST_SUITE_P(AllCases, FactorLawTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class FactorTrainingTest : public SmallTraining {
 protected:
  // Bytes that each of 2 ranks sends in a step, after the first steps.
  int64_t BytesOfStep(TrainOptions options, int batch) {
    options.bucket_mb = 1e-5;  // a bucket for each parameter, without gaps between them
    int64_t bytes = 0;
    RunRanks(2, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(Spec(batch, std::string("momentum: 0.9") + kNothingElse, 4), options,
                             group, stream);
      for (int i = 0; i < 2; ++i) trainer.solver().Step();
      trainer.solver().Drain();
      const int64_t before = trainer.solver().exchange_stats().bytes_sent;
      for (int i = 0; i < 2; ++i) trainer.solver().Step();
      trainer.solver().Drain();
      if (group.rank() == 0) bytes = (trainer.solver().exchange_stats().bytes_sent - before) / 2;
    });
    return bytes;
  }
};

// conv: 4 filters of 3 x 3; ip1: 36 -> 8; ip2: 8 -> 4. Two ranks swap what is summed.
constexpr int64_t kConvBytes = 4 * (4 * 9), kBiases = 4 * (4 + 8 + 4);

TEST_F(FactorTrainingTest, BytesAreThoseOfTheFormulas) {
  const int64_t rows = 3;
  const int64_t ip1 = 4 * rows * (36 + 8), ip2 = 4 * rows * (8 + 4), dense = 4 * (36 * 8 + 8 * 4);
  TrainOptions options = Sfb();
  EXPECT_EQ(BytesOfStep(options, 3), kConvBytes + kBiases + ip1 + ip2);
  options.workers = 2;
  EXPECT_EQ(BytesOfStep(options, 3), kConvBytes + kBiases + 2 * (ip1 + ip2));
  options.workers = 1;
  options.plan = "ip2:dense";
  EXPECT_EQ(BytesOfStep(options, 3), kConvBytes + kBiases + ip1 + 4 * 8 * 4);
  options.plan = "ip1:dense,ip2:dense";
  EXPECT_EQ(BytesOfStep(options, 3), kConvBytes + kBiases + dense);
}

TEST_F(FactorTrainingTest, GlobalBatchIsDividedEvenWhereItDoesNotDivide) {
  const Weights<double> one = Train<double>(1, Spec(10, "momentum: 0.9"), Quiet());
  for (const int file_batch : {64, 2}) {
    TrainOptions options = Sfb();
    options.global_batch = 10;
    for (const int ranks : {2, 3, 4})
      EXPECT_LE(Difference(one, Train<double>(ranks, Spec(file_batch, "momentum: 0.9"), options)),
                1e-10)
          << ranks << " ranks";
    // Only the rows of the shares are sent: 5 of 10 on each of two ranks.
    EXPECT_EQ(BytesOfStep(options, file_batch), kConvBytes + kBiases + 4 * 5 * (44 + 12));
  }
}

TEST_F(FactorTrainingTest, FrozenLayersSendNothing) {
  const auto frozen = [&](int batch) {
    SolverSpec spec = Spec(batch, std::string("momentum: 0.9") + kNothingElse);
    for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer())
      if (layer.name() == "ip1") layer.mutable_param(0)->set_lr_mult(0);
    return spec;
  };
  const Weights<double> one = Train<double>(1, frozen(6), Quiet());
  EXPECT_LE(Difference(one, Train<double>(2, frozen(3), Sfb())), 1e-10);
}

TEST_F(FactorTrainingTest, ResumesWithTheBitsOfAnUninterruptedRun) {
  const std::string settings = std::string("momentum: 0.9 test_initialization: false ");
  const Weights<float> whole = Train<float>(2, Spec(3, settings + "snapshot: 6"), Sfb());
  TrainOptions options = Sfb();
  options.snapshot = (folder_ / "snap_iter_6.solverstate").string();
  EXPECT_EQ(Train<float>(2, Spec(3, settings), options), whole);
  // And under another exchange, to rounding.
  options.exchange = "allreduce";
  EXPECT_LE(Difference(whole, Train<float>(2, Spec(3, settings), options)), 1e-4);
}

// Python's solver.apply_update: the diffs hold gradients that nobody has factors of.
TEST_F(FactorTrainingTest, AnUpdateByHandIsDense) {
  std::vector<Weights<double>> ends;
  for (const char* exchange : {"allreduce", "sfb"}) {
    Weights<double> weights;
    RunRanks(2, [&](Group& group) {
      Stream stream;
      TrainOptions options = Quiet();
      options.exchange = exchange;
      options.share_memory = false;
      Trainer<double> trainer(Spec(3, std::string("momentum: 0.9") + kNothingElse), options, group,
                              stream);
      Solver<double>& solver = trainer.solver();
      solver.Step();
      solver.Drain();
      for (const Param<double>& param : solver.net().params()) {
        double* gradient = param.blob->mutable_diff(stream);
        for (int64_t i = 0; i < param.blob->count(); ++i)
          gradient[i] = 0.01 * static_cast<double>((i + 1) % 7) * (group.rank() + 1);
      }
      solver.ApplyUpdate();
      solver.Step();
      if (group.rank() == 0) weights = WeightsOf(trainer);
    });
    ends.push_back(weights);
  }
  EXPECT_LE(Difference(ends[0], ends[1]), 1e-10);
}

TEST_F(FactorTrainingTest, PlansThatCannotBeAreRefused) {
  const auto error = [&](const char* exchange, const char* plan) {
    return ErrorText<ConfigError>([&] {
      TrainOptions options = Quiet();
      options.exchange = exchange;
      options.plan = plan;
      Train<float>(2, Spec(3, kNothingElse), options);
    });
  };
  EXPECT_NE(
      error("allreduce", "ip1:sfb").find("--plan is for --exchange=sfb or auto, not for allreduce"),
      std::string::npos);
  EXPECT_NE(error("sfb", "ip9:sfb")
                .find("the net has no layer \"ip9\"\n  fix: layers that have "
                      "factors: ip1, ip2"),
            std::string::npos);
  EXPECT_NE(error("sfb", "conv:sfb").find("layer \"conv\" has no factors"), std::string::npos);
  EXPECT_EQ(error("sfb", "conv:dense,ip1:dense"), "no error");
}

}  // namespace
}  // namespace carafe
