// The central law: 1 worker with batch P*K and P workers with batch K reach the same weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "carafe/base/random.h"
#include "carafe/data/database_writer.h"
#include "carafe/train/trainer.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

class LawTest : public SmallTraining {};

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

class RuleLawTest : public SmallTraining, public ::testing::WithParamInterface<LawCase> {};

TEST_P(RuleLawTest, PWorkersReachTheWeightsOfOneWithTheGlobalBatch) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const Weights<double> one = Train<double>(1, Spec(3 * ranks, GetParam().settings), Quiet());
    const Weights<double> many = Train<double>(ranks, Spec(3, GetParam().settings), Quiet());
    EXPECT_LE(Difference(one, many), 1e-10) << ranks << " ranks";
  }
}
INSTANTIATE_TEST_SUITE_P(AllRules, RuleLawTest, ::testing::ValuesIn(kLaws),
                         [](const auto& info) { return std::string(info.param.name); });

// Every scheme, with and without overlap, on ranks and on ranks times workers: the law holds, and
// all that have the same number of workers in all end with the same bits.
TEST_F(LawTest, SchemesAndSplitsReachTheWeightsOfOneWorker) {
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
TEST_F(LawTest, RecurrentNetsWithSharedWeightsReachTheWeightsOfOneWorker) {
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

TEST_F(LawTest, SynchronousBatchNormMakesWorkersEqualToOne) {
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

}  // namespace
}  // namespace carafe
