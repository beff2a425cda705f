// The law '1 worker with the global batch against P with their shares' for the convolution
// algorithms: the same choices, and weights that agree with Winograd's tiles about as closely as
// with direct sums. The net is smooth (no maxima), because a maximum that changes sides turns a
// rounding error into a difference of another kind:
// docs/decisions/0059-choices-do-not-depend-on-workers.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/base/random.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/layers/planned.h"
#include "carafe/train/trainer.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

constexpr int kGlobalBatch = 16;

class AlgorithmLawTest : public SmallTraining {
 protected:
  void SetUp() override {
    SmallTraining::SetUp();
    std::vector<Datum> images;
    RandomSequence random(3);
    for (int i = 0; i < 64; ++i) {
      Datum& datum = images.emplace_back();
      datum.set_channels(1);
      datum.set_height(16);
      datum.set_width(16);
      datum.set_label(static_cast<int>(random.NextBelow(4)));
      for (int p = 0; p < 256; ++p) {
        const bool bright = p / 128 * 2 + p % 16 / 8 == datum.label();
        datum.add_float_data(static_cast<float>(random.NextBelow(256)) / 256.f + (bright ? 1 : 0));
      }
    }
    WriteDatabase("images", images);
  }

  // conv3 takes F(4x4,3x3), conv5 F(4x4,5x5).
  SolverSpec SpecOf(int workers) const {
    const std::string net = fmt::format(
        R"(
      layer {{ name: "data" type: "Data" top: "data" top: "label"
        data_param {{ source: "{}/images" backend: LMDB batch_size: {} }} }}
      layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param {{ num_output: 16 kernel_size: 3 pad: 1
          weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "tanh1" type: "TanH" bottom: "conv1" top: "conv1" }}
      layer {{ name: "conv3" type: "Convolution" bottom: "conv1" top: "conv3"
        convolution_param {{ num_output: 24 kernel_size: 3 pad: 1
          weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "tanh3" type: "TanH" bottom: "conv3" top: "conv3" }}
      layer {{ name: "pool" type: "Pooling" bottom: "conv3" top: "pool"
        pooling_param {{ pool: AVE kernel_size: 2 stride: 2 }} }}
      layer {{ name: "conv5" type: "Convolution" bottom: "pool" top: "conv5"
        convolution_param {{ num_output: 32 kernel_size: 5 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "tanh5" type: "TanH" bottom: "conv5" top: "conv5" }}
      layer {{ name: "ip" type: "InnerProduct" bottom: "conv5" top: "ip"
        inner_product_param {{ num_output: 4 weight_filler {{ type: "xavier" }} }} }}
      layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }})",
        folder_.string(), kGlobalBatch / workers);
    return ParseSolverSpec(
        fmt::format("net_param {{ {} }} base_lr: 0.05 momentum: 0.9 lr_policy: \"fixed\" "
                    "max_iter: 10 random_seed: 5 snapshot_after_train: false",
                    net),
        "solver.prototxt");
  }

  // The weights after ten iterations; `choices` gets the algorithms of every worker's net.
  Weights<float> TrainBy(const AlgorithmChoices& plan, int workers,
                         std::vector<std::string>* choices = nullptr) const {
    Weights<float> weights;
    RunRanks(1, [&](Group& group) {
      Stream stream;
      TrainOptions options = Quiet();
      options.workers = workers;
      Trainer<float> trainer(SpecOf(workers), options, group, stream);
      for (carafe::Net<float>* net : trainer.solver().AllNets()) net->SetPlan(plan);
      trainer.Run();
      weights = WeightsOf(trainer);
      if (choices == nullptr) return;
      for (carafe::Net<float>* net : trainer.solver().AllNets()) {
        choices->push_back(ChoicesOf(stream, *net));
      }
    });
    return weights;
  }

  static std::string ChoicesOf(Stream& stream, const carafe::Net<float>& net) {
    std::string text;
    for (size_t l = 0; l < net.layers().size(); ++l) {
      if (net.bottoms()[l].empty()) continue;
      Layer<float>& layer = *net.layers()[l];
      for (const PlannedWay& way : layer.Ways(stream, net.bottoms()[l][0]->shape(), 0)) {
        if (!way.chosen) continue;
        text += fmt::format("{} {} {}\n", layer.name(), way.direction, way.algorithm);
      }
    }
    return text;
  }
};

// |a - b| / |a| over all weights.
double Distance(const Weights<float>& a, const Weights<float>& b) {
  double difference = 0, norm = 0;
  for (size_t p = 0; p < a.size(); ++p) {
    for (size_t i = 0; i < a[p].size(); ++i) {
      difference += std::pow(double{a[p][i]} - double{b[p][i]}, 2);
      norm += std::pow(double{a[p][i]}, 2);
    }
  }
  return std::sqrt(difference / norm);
}

constexpr const char* kByRule[] = {"conv3 forward winograd4x4\n", "conv3 data winograd4x4\n",
                                   "conv3 weights winograd4x4\n", "conv5 forward winograd4x4of5\n",
                                   "conv5 data winograd4x4of5\n", "conv5 weights winograd4x4of5\n"};

TEST_F(AlgorithmLawTest, WorkersChooseByRuleWhatOneWithTheGlobalBatchChooses) {
  std::vector<std::string> one;
  TrainBy({}, 1, &one);
  ASSERT_EQ(one.size(), 1u);
  for (const char* line : kByRule) EXPECT_NE(one[0].find(line), std::string::npos) << one[0];
  for (const int workers : {2, 4}) {
    std::vector<std::string> choices;
    TrainBy({}, workers, &choices);
    EXPECT_EQ(choices, std::vector<std::string>(static_cast<size_t>(workers), one[0]));
  }
}

TEST_F(AlgorithmLawTest, WorkersChooseWhatWasMeasuredWithTheGlobalBatch) {
  const ConvolutionShape conv3 = {.images = kGlobalBatch,
                                  .in_channels = 16,
                                  .out_channels = 24,
                                  .in_h = 16,
                                  .in_w = 16,
                                  .out_h = 16,
                                  .out_w = 16,
                                  .kernel_h = 3,
                                  .kernel_w = 3,
                                  .pad_h = 1,
                                  .pad_w = 1};
  const AlgorithmChoices measured = {.asked = "measure",
                                     .measured = {{ChoiceKey(conv3, ConvolutionDirection::kForward),
                                                   ConvolutionAlgorithm::kWinograd2x2}}};
  for (const int workers : {1, 2, 4}) {
    std::vector<std::string> choices;
    TrainBy(measured, workers, &choices);
    for (const std::string& of_a_worker : choices) {
      EXPECT_NE(of_a_worker.find("conv3 forward winograd2x2\n"), std::string::npos) << of_a_worker;
    }
  }
}

// Measured: three times as far as with direct sums, whose difference is 1.2e-7. The forward results
// of F(4x4,5x5) answer to the last digits of the weights more strongly than direct sums do.
TEST_F(AlgorithmLawTest, WinogradAgreesBetweenWorkersAboutAsCloselyAsDirectSums) {
  const AlgorithmChoices by_direct = {.asked = "direct"};
  for (const int workers : {2, 4}) {
    const double direct = Distance(TrainBy(by_direct, 1), TrainBy(by_direct, workers));
    const double winograd = Distance(TrainBy({}, 1), TrainBy({}, workers));
    EXPECT_LE(direct, 1e-6) << workers << " workers";
    EXPECT_LE(winograd, 5 * direct) << workers << " workers";
  }
}

}  // namespace
}  // namespace carafe
