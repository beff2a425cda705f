// The central law: 1 worker with batch P*K and P workers with batch K reach the same weights.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/exchange/scheme.h"
#include "carafe/solvers/update_rule.h"
#include "carafe/train/trainer.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

class LawTest : public SmallTraining {};

// BatchNorm instead of ReLU. Below it a bias has no gradient but rounding.
void Normalise(NetParameter& net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.name() == "conv") layer.mutable_convolution_param()->set_bias_term(false);
    if (layer.name() != "relu") continue;
    layer.set_name("norm");
    layer.set_type("BatchNorm");
    layer.mutable_batch_norm_param()->mutable_scale_filler()->set_value(1);
  }
}

// Of the solver: no tests and no snapshots.
constexpr char kNothingElse[] = " test_initialization: false snapshot_after_train: false";

struct LawCase {
  const char* name;
  const char* settings;
};
void PrintTo(const LawCase& law, std::ostream* out) { *out << law.settings; }

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

class RuleLawTest : public SmallTraining, public ::testing::WithParamInterface<LawCase> {};

TEST_P(RuleLawTest, PWorkersReachTheWeightsOfOneWithTheGlobalBatch) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const std::string settings = std::string(GetParam().settings) + kNothingElse;
    const Weights<double> one = Train<double>(1, Spec(3 * ranks, settings), Quiet());
    const Weights<double> many = Train<double>(ranks, Spec(3, settings), Quiet());
    EXPECT_LE(Difference(one, many), 1e-10) << ranks << " ranks";
  }
}

TEST_P(RuleLawTest, InFloatTheyStayNearThoseForFiftyIterations) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const std::string settings = std::string(GetParam().settings) + kNothingElse;
    const Weights<float> one = Train<float>(1, Spec(3 * ranks, settings, 50), Quiet());
    const Weights<float> many = Train<float>(ranks, Spec(3, settings, 50), Quiet());
    EXPECT_LE(Difference(one, many), 1e-4) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(AllRules, RuleLawTest, ::testing::ValuesIn(kLaws),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Law, HasACaseForEveryRule) {
  for (const std::string& rule : RuleRegistry::Instance().Names()) {
    const bool has_case = std::any_of(std::begin(kLaws), std::end(kLaws), [&](const LawCase& law) {
      SolverParameter param;
      return google::protobuf::TextFormat::ParseFromString(law.settings, &param) &&
             param.type() == rule;
    });
    EXPECT_TRUE(has_case) << rule;
  }
}

// A case is a net and a solver that the law is about.
struct FeatureCase {
  const char* name;
  const char* settings;
  // Of a net that reads texts instead of pictures: what makes "middle" of "embed" and "cont".
  const char* middle = nullptr;
  bool normed = false;  // BatchNorm in the net of pictures
};
void PrintTo(const FeatureCase& feature, std::ostream* out) { *out << feature.settings; }

const FeatureCase kFeatures[] = {
    {"Sgd", "momentum: 0.9 weight_decay: 0.01"},  // all nets of pictures have dropout
    {"Nesterov", "type: \"Nesterov\" momentum: 0.9 weight_decay: 0.01"},
    {"Adam", "type: \"Adam\" momentum: 0.9 momentum2: 0.99 delta: 1e-3"},
    {"AdaGrad", "type: \"AdaGrad\" weight_decay: 0.01"},
    {"IterSize2", "momentum: 0.9 weight_decay: 0.01 iter_size: 2"},
    {"Clipped", "momentum: 0.9 clip_gradients: 0.5"},
    {"SharedWeights", "momentum: 0.9", R"(
      layer { name: "a" type: "InnerProduct" bottom: "embed" top: "a" param { name: "w" }
        inner_product_param { num_output: 6 axis: 2 bias_term: false
          weight_filler { type: "xavier" } } }
      layer { name: "b" type: "InnerProduct" bottom: "a" top: "middle" param { name: "w" }
        inner_product_param { num_output: 6 axis: 2 bias_term: false } })"},
    {"Lstm", "momentum: 0.9", R"(
      layer { name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "middle"
        recurrent_param { num_output: 6 weight_filler { type: "uniform" min: -1 max: 1 } } })"},
    {"Rnn", "momentum: 0.9", R"(
      layer { name: "rnn" type: "RNN" bottom: "embed" bottom: "cont" top: "middle"
        recurrent_param { num_output: 6 weight_filler { type: "uniform" min: -1 max: 1 } } })"},
    {"SynchronousBatchNorm", "momentum: 0.9 sync_batch_norm: true", nullptr, true},
};

struct Split {
  int ranks, workers;
};

// By the number of all workers. Where the workers of a rank are no power of two, a split has bits
// of its own; with one rank it has not.
const std::map<int, std::vector<Split>> kSplits = {{2, {{2, 1}, {1, 2}}},
                                                   {3, {{3, 1}, {1, 3}}},
                                                   {4, {{4, 1}, {2, 2}, {1, 4}}},
                                                   {5, {{5, 1}, {1, 5}}},
                                                   {8, {{8, 1}, {4, 2}, {2, 4}, {1, 8}}}};

class FeatureLawTest : public SmallTraining, public ::testing::WithParamInterface<FeatureCase> {
 protected:
  void SetUp() override {
    SmallTraining::SetUp();
    if (GetParam().middle != nullptr) WriteTexts();
  }

  // `share` workers' rows or streams.
  SolverSpec SpecOf(int share) const {
    const std::string more = std::string(GetParam().settings) + kNothingElse;
    SolverSpec spec = Spec(3 * share, more);
    if (GetParam().middle != nullptr) {
      spec = ParseSolverSpec(
          fmt::format("net_param {{ {} }} base_lr: 0.1 lr_policy: \"fixed\" max_iter: 10 "
                      "random_seed: 5 snapshot_prefix: \"{}/snap\" {}",
                      TextNet(2 * share), folder_.string(), more),
          "solver.prototxt");
    }
    if (GetParam().normed) Normalise(*spec.param.mutable_net_param());
    return spec;
  }

 private:
  // A word, whether the text goes on here, and the next word.
  void WriteTexts() const {
    std::vector<Datum> words;
    RandomSequence random(11);
    for (int i = 0; i < 480; ++i) {
      Datum& datum = words.emplace_back();
      datum.set_channels(2);
      datum.set_height(1);
      datum.set_width(1);
      datum.add_float_data(static_cast<float>(random.NextBelow(5)));
      datum.add_float_data(random.NextBelow(6) > 0 ? 1.f : 0.f);
      datum.set_label(static_cast<int>(random.NextBelow(5)));
    }
    WriteDatabase("text", words);
  }
  // Four words of each stream a pass: streams are dealt over the workers, and what a recurrent
  // layer remembers of a stream stays with its worker.
  std::string TextNet(int streams) const {
    return fmt::format(R"(
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
      {}
      layer {{ name: "c" type: "InnerProduct" bottom: "middle" top: "c"
        inner_product_param {{ num_output: 5 axis: 2 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "scores" type: "Reshape" bottom: "c" top: "scores"
        reshape_param {{ shape {{ dim: -1 dim: 5 }} }} }}
      layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }}
    )",
                       folder_.string(), 4 * streams, GetParam().middle);
  }
};

// Every strategy that is built, with and without overlap, on ranks and on ranks times workers: the
// law holds, and all that have the same number of workers in all end with the same bits.
TEST_P(FeatureLawTest, EveryStrategyOverlapAndSplitReachesTheWeightsOfOneWorker) {
  for (const auto& [total, splits] : kSplits) {
    TrainOptions options = Quiet();
    options.check_replicas = 0;  // Train compares them
    options.bucket_mb = 1e-3;    // several buckets
    const Weights<double> one = Train<double>(1, SpecOf(total), options);
    Weights<double> first;
    std::vector<std::string> strategies = SchemeRegistry::Instance().Names();
    strategies.push_back("ssp");  // without staleness
    for (const Split& split : splits)
      for (const std::string& strategy : strategies)
        for (const bool overlap : {true, false}) {
          SCOPED_TRACE(fmt::format("{} {} x {}, overlap {}", strategy, split.ranks, split.workers,
                                   overlap ? "on" : "off"));
          options.exchange = strategy;
          options.overlap = overlap;
          options.workers = split.workers;
          const Weights<double> many = Train<double>(split.ranks, SpecOf(1), options);
          EXPECT_LE(Difference(one, many), 1e-10);
          if (first.empty()) first = many;
          EXPECT_EQ(many, first);
        }
  }
}
INSTANTIATE_TEST_SUITE_P(AllFeatures, FeatureLawTest, ::testing::ValuesIn(kFeatures),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(LawTest, GlobalBatchIsDividedEvenWhereItDoesNotDivide) {
  const Weights<double> one = Train<double>(1, Spec(10, "momentum: 0.9"), Quiet());
  TrainOptions options = Quiet();
  options.global_batch = 10;
  for (const int ranks : {2, 3, 4}) {
    EXPECT_LE(Difference(one, Train<double>(ranks, Spec(64, "momentum: 0.9"), options)), 1e-10)
        << ranks << " ranks";
  }
}

TEST_F(LawTest, OverlapAndBucketsChangeNoBit) {
  const Weights<float> plain = Train<float>(3, Spec(4, "momentum: 0.9"), Quiet());
  TrainOptions options = Quiet();
  options.overlap = false;
  EXPECT_EQ(Train<float>(3, Spec(4, "momentum: 0.9"), options), plain);
  options.bucket_mb = 1e-5;
  options.overlap = true;
  EXPECT_EQ(Train<float>(3, Spec(4, "momentum: 0.9"), options), plain);
}

// Each worker's own statistics are not those of the whole batch; rows that cannot be dealt out
// evenly weigh as many as they are.
TEST_F(LawTest, BatchNormIsThatOfOneWorkerOnlyIfAskedTo) {
  const auto with_norm = [&](int batch) {
    SolverSpec spec = Spec(batch, "momentum: 0.9");
    Normalise(*spec.param.mutable_net_param());
    return spec;
  };
  EXPECT_GT(
      Difference(Train<double>(1, with_norm(6), Quiet()), Train<double>(2, with_norm(3), Quiet())),
      1e-6);
  TrainOptions options = Quiet();
  options.global_batch = 10;
  options.sync_batch_norm = true;
  EXPECT_LE(Difference(Train<double>(1, with_norm(10), Quiet()),
                       Train<double>(3, with_norm(64), options)),
            1e-10);
}

}  // namespace
}  // namespace carafe
