// What a run says about a loss that is NaN or infinite: the first bad blob in forward order.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "carafe/comm/run_ranks.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

// Passes its bottom on; cannot repeat a pass, as a layer written in Python cannot.
template <typename T>
class OnceOnly final : public Layer<T> {
 public:
  using Layer<T>::Layer;
  Shapes InferShapes(const Shapes& bottom) const override { return {bottom[0]}; }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    top[0]->SetData(run.stream, bottom[0]->DataToHost(run.stream));
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}
  bool RewindForward(Stream&, int) override { return false; }
};
const RegisterLayer<OnceOnly> kOnceOnly{
    {.type = "TestOnceOnly", .bottoms = {1, 1}, .tops = {1, 1}, .summary = "For tests."}};

// Blobs of one worker's batch are large enough to share memory.
constexpr int kBatch = 256;

class BadLossTest : public SmallTraining {
 protected:
  // The small net with `layer` put in before the layer `before`, which then reads "blown".
  SolverSpec With(const std::string& layer, const std::string& before, const std::string& reads,
                  int batch = kBatch, const std::string& more = "") const {
    SolverSpec spec = Spec(batch, more, 2);
    NetParameter& net = *spec.param.mutable_net_param();
    NetParameter added;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layer, &added));
    NetParameter old;
    old.Swap(&net);
    net.set_name(old.name());
    for (LayerParameter& next : *old.mutable_layer()) {
      if (next.name() == before) {
        for (const LayerParameter& one : added.layer()) *net.add_layer() = one;
        next.set_bottom(0, reads);
      }
      net.add_layer()->Swap(&next);
    }
    return spec;
  }
  // A Power layer that makes everything infinite.
  static std::string Blowup(const std::string& bottom, const std::string& top) {
    return fmt::format(
        "layer {{ name: 'blowup' type: 'Power' bottom: '{}' top: '{}' power_param {{ power: 3 "
        "scale: 1e30 }} }} ",
        bottom, top);
  }
  template <typename T = float>
  static std::string ErrorOf(int ranks, const SolverSpec& spec, const TrainOptions& options) {
    return ErrorText<ConfigError>([&] { Train<T>(ranks, spec, options); });
  }
};

TEST_F(BadLossTest, NamesTheFirstBadBlobAndItsLayerAlthoughMemoryWasReleased) {
  const SolverSpec spec = With(Blowup("data", "blown"), "conv", "blown");
  for (const int ranks : {1, 2}) {
    for (const int workers : {1, 2}) {
      for (const bool share_memory : {true, false}) {
        TrainOptions options = Quiet();
        options.workers = workers;
        options.share_memory = share_memory;
        EXPECT_THAT(ErrorOf(ranks, spec, options),
                    HasSubstr(fmt::format("the loss is NaN or infinite at iteration 0 (rank 0: "
                                          "{}first in blob \"blown\", a top of layer \"blowup\" "
                                          "(Power))\n",
                                          workers > 1 ? "worker 0: " : "")))
            << ranks << " ranks, " << workers << " workers, shared memory: " << share_memory;
      }
    }
  }
}

TEST_F(BadLossTest, NamesTheLayerInAChainInPlace) {
  // conv, relu and blowup all write the blob "conv".
  EXPECT_THAT(ErrorOf(1, With(Blowup("conv", "conv"), "ip1", "conv"), Quiet()),
              HasSubstr("first in blob \"conv\", a top of layer \"blowup\" (Power))"));
}

// Record 1 alone overflows: it goes to worker 1.
TEST_F(BadLossTest, NamesTheRankOrWorkerThatSawIt) {
  std::vector<Datum> pictures = Pictures();
  pictures[1].set_data(std::string(36, static_cast<char>(255)));
  WriteDatabase("one_bright", pictures);
  SolverSpec spec = With(
      "layer { name: 'steep' type: 'Power' bottom: 'data' top: 'steep' power_param { power: 50 "
      "scale: 3.7 } } ",
      "conv", "steep", /*batch=*/20);
  DataParameter& data = *spec.param.mutable_net_param()->mutable_layer(0)->mutable_data_param();
  data.set_source((folder_ / "one_bright").string());
  data.set_shuffle(false);
  EXPECT_THAT(ErrorOf(2, spec, Quiet()), HasSubstr("(rank 1: first in blob \"steep\""));
  TrainOptions two = Quiet();
  two.workers = 2;
  EXPECT_THAT(ErrorOf(1, spec, two), HasSubstr("(rank 0: worker 1: first in blob \"steep\""));
}

TEST_F(BadLossTest, LooksAtEveryPassOfAStep) {
  std::vector<Datum> pictures = Pictures();
  pictures[25].set_data(std::string(36, static_cast<char>(255)));
  WriteDatabase("one_bright", pictures);
  SolverSpec spec = With(
      "layer { name: 'steep' type: 'Power' bottom: 'data' top: 'steep' power_param { power: 50 "
      "scale: 3.7 } } ",
      "conv", "steep", /*batch=*/20, "iter_size: 3 ");  // record 25 is in the second of three
  DataParameter& data = *spec.param.mutable_net_param()->mutable_layer(0)->mutable_data_param();
  data.set_source((folder_ / "one_bright").string());
  data.set_shuffle(false);
  EXPECT_THAT(ErrorOf(1, spec, Quiet()), HasSubstr("(rank 0: first in blob \"steep\""));
}

TEST_F(BadLossTest, SaysBeforeWhichLayerTheSearchEnded) {
  const std::string layers =
      "layer { name: 'once' type: 'TestOnceOnly' bottom: 'data' top: 'passed' } ";
  EXPECT_THAT(ErrorOf(1, With(layers + Blowup("passed", "blown"), "conv", "blown"), Quiet()),
              HasSubstr("(rank 0: in no blob before layer \"once\" (TestOnceOnly), which cannot "
                        "run again to find it)"));
  EXPECT_THAT(
      ErrorOf(1,
              With(Blowup("data", "blown") + "layer { name: 'once' type: "
                                             "'TestOnceOnly' bottom: 'blown' top: 'passed' } ",
                   "conv", "passed"),
              Quiet()),
      HasSubstr("first in blob \"blown\""));
}

// The search changes nothing that a run which goes on would see: statistics and written files.
TEST_F(BadLossTest, TheSearchHasNoOtherEffect) {
  const std::string file = (folder_ / "rows.h5").string();
  const std::string layers =
      Blowup("data", "blown") +
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'data' top: "
      "'norm' } layer { name: 'out' type: 'HDF5Output' bottom: 'norm' bottom: 'label' include { "
      "phase: TRAIN } hdf5_output_param { file_name: '" +
      file + "' } } ";
  const SolverSpec spec = With(layers, "conv", "blown");
  const auto after_one_step = [&](OnNan on_nan) {
    std::vector<std::vector<float>> statistics;
    RunRanks(1, [&](Group& group) {
      Stream stream;
      TrainOptions options = Quiet();
      options.on_nan = on_nan;
      Trainer<float> trainer(spec, options, group, stream);
      if (on_nan == OnNan::kStop) {
        EXPECT_THROW(trainer.Step(1), ConfigError);
      } else {
        trainer.Step(1);
      }
      for (const Param<float>& param : trainer.solver().net().params()) {
        if (!param.learned) statistics.push_back(param.blob->DataToHost(stream));
      }
    });
    EXPECT_EQ(Hdf5File(file).DatasetShape("label")[0], kBatch);
    return statistics;
  };
  const auto with_search = after_one_step(OnNan::kStop);
  ASSERT_EQ(with_search.size(), 3u);
  EXPECT_NE(with_search[0][0], 0);
  EXPECT_EQ(with_search, after_one_step(OnNan::kContinue));
}

}  // namespace
}  // namespace carafe
