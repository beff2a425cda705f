// The start of a run: all ranks begin with what rank 0 has, and the fields of the solver that are
// not Caffe's do what they say unless a flag says otherwise.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/scheme.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::MatchesRegex;

class TrainerStartTest : public SmallTraining {};

// The convolution is frozen, and two layers below the last one share their weights. All blobs are
// filled at random, biases too.
void FreezeAndShare(NetParameter& net) {
  NetParameter added;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      layer { name: "a" type: "InnerProduct" bottom: "ip1" top: "a" param { name: "w" }
        inner_product_param { num_output: 8 bias_term: false weight_filler { type: "xavier" } } }
      layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { name: "w" }
        inner_product_param { num_output: 8 bias_term: false } })",
                                                            &added));
  NetParameter whole;
  for (LayerParameter layer : net.layer()) {
    if (layer.name() == "conv") {
      for (int i = 0; i < 2; ++i) layer.add_param()->set_lr_mult(0);
      FillerParameter& bias = *layer.mutable_convolution_param()->mutable_bias_filler();
      bias.set_type("uniform");
      bias.set_max(1);
    }
    if (layer.name() == "ip2") {
      whole.mutable_layer()->MergeFrom(added.layer());
      layer.set_bottom(0, "b");
    }
    *whole.add_layer() = layer;
  }
  net.mutable_layer()->Swap(whole.mutable_layer());
}

// Without random_seed every rank fills its blobs with numbers of its own, shuffles and drops in its
// own way, until it has rank 0's weights and rank 0's seed: then all is as if one worker had that
// seed. Frozen blobs travel at the start only.
TEST_F(TrainerStartTest, RanksWithoutASeedBeginWithTheWeightsAndTheSeedOfRankZero) {
  struct Split {
    int ranks, workers;
  };
  const auto spec = [&](int batch) {
    SolverSpec result =
        Spec(batch, "momentum: 0.9 weight_decay: 0.01 iter_size: 2 clip_gradients: 0.5");
    FreezeAndShare(*result.param.mutable_net_param());
    result.param.clear_random_seed();
    return result;
  };
  Weights<double> last_start;
  for (const std::string& strategy : SchemeRegistry::Instance().Names())
    for (const Split& split : {Split{3, 1}, Split{2, 2}}) {
      SCOPED_TRACE(fmt::format("{} {} x {}", strategy, split.ranks, split.workers));
      TrainOptions options = Quiet();
      options.check_replicas = 0;  // it would stop what is to be seen here
      options.exchange = strategy;
      options.workers = split.workers;
      const auto ranks = static_cast<size_t>(split.ranks);
      std::vector<Weights<double>> start(ranks), end(ranks);
      std::vector<uint64_t> seeds(ranks);
      RunRanks(split.ranks, [&](Group& group) {
        Stream stream;
        Trainer<double> trainer(spec(3), options, group, stream);
        const auto rank = static_cast<size_t>(group.rank());
        start[rank] = WeightsOf(trainer);
        seeds[rank] = trainer.solver().seed();
        trainer.Run();
        end[rank] = WeightsOf(trainer);
      });
      for (size_t r = 1; r < ranks; ++r) {
        EXPECT_EQ(seeds[r], seeds[0]) << "rank " << r;
        EXPECT_EQ(start[r], start[0]) << "rank " << r;
        EXPECT_EQ(end[r], end[0]) << "rank " << r;
      }
      for (const size_t frozen : {0u, 1u}) EXPECT_EQ(end[0][frozen], start[0][frozen]);
      for (size_t p = 2; p < end[0].size(); ++p) EXPECT_NE(end[0][p], start[0][p]) << p;
      EXPECT_NE(start[0], last_start) << "every run draws a seed";
      last_start = start[0];
      SolverSpec one = spec(3 * split.ranks * split.workers);
      one.param.set_random_seed(static_cast<int64_t>(seeds[0]));
      EXPECT_LE(Difference(Train<double>(1, one, Quiet()), end[0]), 1e-10);
    }
}

// How many times as much as rank 1 each of four ranks receives: every strategy has its own answer.
std::vector<double> ReceivedByRank(const SolverSpec& spec, const std::string& flag) {
  TrainOptions options = Quiet();
  if (!flag.empty()) options.exchange = flag;
  std::vector<double> received(4);
  RunRanks(4, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    trainer.Step(2);
    group.AllGather("", "the end, by when all bytes are counted");
    received[static_cast<size_t>(group.rank())] =
        static_cast<double>(trainer.solver().exchange_stats().bytes_received);
  });
  const double unit = received[1];
  for (double& bytes : received) bytes /= unit;
  return received;
}

TEST_F(TrainerStartTest, TheSolverChoosesTheExchangeUnlessTheFlagDoes) {
  const std::vector<double> allreduce = {1, 1, 1, 1};
  const std::vector<double> server = {3, 1, 1, 1};  // gradients of all to rank 0, values to all
  const std::vector<double> tree = {2, 1, 2, 1};    // gradients 3 to 2, then 1 and 2 to 0; values
  EXPECT_EQ(ReceivedByRank(Spec(3, ""), ""), allreduce);
  EXPECT_EQ(ReceivedByRank(Spec(3, "exchange: \"server\""), ""), server);
  EXPECT_EQ(ReceivedByRank(Spec(3, "exchange: \"tree\""), ""), tree);
  EXPECT_EQ(ReceivedByRank(Spec(3, "exchange: \"tree\""), "server"), server);
  EXPECT_EQ(ReceivedByRank(Spec(3, "exchange: \"server\""), "allreduce"), allreduce);
  EXPECT_EQ(ReceivedByRank(Spec(3, "exchange: \"gossip\""), "tree"), tree);
}

TEST_F(TrainerStartTest, AnUnknownExchangeInTheSolverGetsTheNamesOfThoseThatAreBuilt) {
  for (const int ranks : {1, 2}) {
    EXPECT_THAT(ErrorText<ConfigError>(
                    [&] { Train<float>(ranks, Spec(3, "exchange: \"gossip\""), Quiet()); }),
                MatchesRegex("solver.prototxt:[0-9]+:[0-9]+: error: exchange is \"gossip\"\n"
                             "  fix: use one of allreduce, auto, local, server, sfb, ssp, tree"))
        << ranks << " ranks";
  }
}

TEST_F(TrainerStartTest, TheSolverChoosesSynchronousBatchNormUnlessTheFlagDoes) {
  const auto train = [&](const std::string& more, std::optional<bool> flag) {
    SolverSpec spec = Spec(3, "momentum: 0.9 " + more);
    for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer())
      if (layer.name() == "relu") layer.set_type("BatchNorm");
    TrainOptions options = Quiet();
    options.sync_batch_norm = flag;
    return Train<double>(2, spec, options);
  };
  const Weights<double> local = train("", {}), sync = train("sync_batch_norm: true", {});
  EXPECT_NE(local, sync);
  EXPECT_EQ(train("sync_batch_norm: false", {}), local);
  EXPECT_EQ(train("sync_batch_norm: true", false), local);
  EXPECT_EQ(train("sync_batch_norm: false", true), sync);
}

}  // namespace
}  // namespace carafe
