#include "carafe/proto/fork_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/proto/fork_layers.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/private_fields.h"
#include "carafe/proto/text.h"
#include "carafe/proto/text_scan.h"
#include "carafe/proto/upgrade.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NetParameter Net(const std::string& text) {
  NetParameter net;
  ParseText(text, "n.prototxt", &net);
  return net;
}

std::string NetError(const std::string& text) {
  return ErrorText<ConfigError>([&] { Net(text); });
}

SolverParameter Solver(const std::string& text) {
  SolverParameter solver;
  const Place place = ParseText(text, "s.prototxt", &solver);
  UpgradeSolver(&solver, place);
  return solver;
}

TEST(VisitFields, FindsFieldsInsideBracesFirst) {
  std::vector<std::string> found;
  VisitFields("a: 1 # b: 2\nc { d: 'x}' \"y\" e <f: [1, 2]> } g:3", nullptr,
              [&](const TextField& field) {
                std::string path;
                for (const auto& [name, index] : field.path)
                  path += std::string(name) + std::to_string(index) + ".";
                found.push_back(path + std::string(field.name) + "=" + std::string(field.value));
              });
  EXPECT_THAT(found, ElementsAre("a=1", "c0.d='x}' \"y\"", "c0.e0.f=[1, 2]", "c0.e=", "c=", "g=3"));
}

TEST(EnclosingLayer, IsTheOneAroundThePlace) {
  const std::string text =
      "layer { name: 'a' type: 'A' }\nlayer { name: 'b' p { filler { type: 'xavier' } q: 1 } type: "
      "'B' }";
  const TextLayer layer = EnclosingLayer(text, text.find("q: 1"));
  EXPECT_EQ(layer.name, "b");
  EXPECT_EQ(layer.type, "B");
  EXPECT_EQ(text.substr(layer.type_begin, 9), "type: 'B'");
  EXPECT_EQ(EnclosingLayer(text, text.find("\n")).type, "");
}

TEST(ForkText, KeepsTheFieldsOfEachLayer) {
  const NetParameter net =
      Net("layer { name: 'p' prior_box_param { min_size: 30 variance: [0.1, 0.2] } }\n"
          "layer { name: 'q' pooling_param { ceil_mode: false kernel_size: 2 } }\n"
          "layer { name: 'r' reorg_param { stride: 2 } bottom: 'x' }");
  const auto prior = ForkPart<ForkLayerParameter>(net.layer(0)).prior_box_param();
  EXPECT_EQ(prior.min_size(0), 30);
  EXPECT_EQ(prior.variance_size(), 2);
  EXPECT_FALSE(ForkPart<ForkLayerParameter>(net.layer(1)).has_prior_box_param());
  EXPECT_EQ(net.layer(1).pooling_param().kernel_size(), 2u);
  EXPECT_TRUE(ForkPart<ForkPoolingParameter>(net.layer(1).pooling_param()).has_ceil_mode());
  EXPECT_EQ(ForkPart<ForkLayerParameter>(net.layer(2)).reorg_param().stride(), 2u);
  EXPECT_EQ(net.layer(2).bottom(0), "x");
  const NetParameter copy = net;  // as the net's copies, and what other ranks are sent
  EXPECT_EQ(ForkPart<ForkLayerParameter>(copy.layer(2)).reorg_param().stride(), 2u);
}

TEST(ForkText, InTheNetOfASolverIsKeptThere) {
  const SolverParameter solver =
      Solver("net_param { layer { name: 'a' } layer { name: 'r' reorg_param { stride: 3 } } }");
  EXPECT_EQ(ForkPart<ForkLayerParameter>(solver.net_param().layer(1)).reorg_param().stride(), 3u);
}

TEST(ForkText, ReadsAForksEnumValueAsAField) {
  const NetParameter net =
      Net("layer { loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 128 } }");
  const auto fork = ForkPart<ForkLossParameter>(net.layer(0).loss_param());
  EXPECT_TRUE(fork.pre_fixed());
  EXPECT_EQ(fork.pre_fixed_normalizer(), 128);
  EXPECT_FALSE(net.layer(0).loss_param().has_normalization());
}

TEST(ForkText, PointsAtAnErrorInsideOfAForksField) {
  EXPECT_EQ(NetError("layer {\n  type: 'Reorg' reorg_param {\n    strid: 2 } }"),
            "n.prototxt:3:5: error: ReorgParameter has no field named \"strid\"\n"
            "  fix: did you mean \"stride\"?");
}

TEST(ForkText, IsNotWrittenToCaffesFiles) {
  NetParameter net = Net("layer { name: 'r' reorg_param { stride: 2 } }");
  DropPrivateFields(&net);
  EXPECT_EQ(net.ShortDebugString(), "layer { name: \"r\" }");
}

// ---- what is left out, and what is refused ----

TEST(ForkFields, OfMessagesAreLeftOutWhereTheyAre) {
  const NetParameter net =
      Net("eltwise_mem_sharing: true multinode { compress { type: 'x' } }\n"
          "layer { name: 'c' engine: 'MKLDNN' quantization_param { bw_params: 8 scale_in: 1.5 }\n"
          "  convolution_param { engine: MKL2017 num_output: 2 } }\n"
          "layer { name: 'd' convolution_param { engine: CAFFE num_output: 2 } }");
  EXPECT_EQ(net.layer(0).ShortDebugString(), "name: \"c\" convolution_param { num_output: 2 }");
  EXPECT_TRUE(net.layer(1).convolution_param().has_engine());
}

TEST(ForkFields, OfOtherForksAreRefusedByName) {
  EXPECT_THAT(NetError("bn_stats_batch_size: 32"), HasSubstr("is a field of intel/caffe\n  fix: "));
  EXPECT_THAT(ErrorText<ConfigError>([] { Solver("larc_turbo: true"); }),
              HasSubstr("SolverParameter.larc_turbo is a field of NVCaffe and Caffe-MPI 2.0\n"
                        "  fix: remove it; a rate for each layer"));
}

TEST(ForkLayers, AreNamedBeforeTheirFields) {
  EXPECT_EQ(
      NetError("layer {\n  name: 'loss'\n  type: 'RegionLoss'\n"
               "  region_loss_param { num_class: 20 } }"),
      "n.prototxt:3:3: error: layer \"loss\": RegionLoss is a layer of YOLO for Caffe, which is "
      "not built here\n  fix: to run the net, take its deploy.prototxt");
  EXPECT_EQ(
      NetError("layers {\n  name: 'data' type: IMAGE_SEG_DATA }"),
      "n.prototxt:2:16: error: layer \"data\": IMAGE_SEG_DATA is a layer of DeepLab, which is "
      "not built here\n  fix: convert images and labels to HDF5 and take HDF5Data");
}

TEST(ForkLayers, ThatNobodyKnowsAreNamedByTheirType) {
  EXPECT_EQ(NetError("layer { name: 'a' type: 'FooBar' foo_bar_param { x: 1 } }"),
            "n.prototxt:1:19: error: layer \"a\": unknown layer type \"FooBar\"\n"
            "  fix: `carafe layers` lists those that are built; a Python layer can be any other");
}

// ---- what is called otherwise here ----

TEST(UpgradeSolver, ReadsWhatForksCallOtherwise) {
  const SolverParameter warm = Solver("warmup_iter: 50 warmup_start_lr: 0.1");
  EXPECT_EQ(warm.rampup_interval(), 50);
  EXPECT_FLOAT_EQ(warm.rampup_lr(), 0.1F);
  const SolverParameter mpi = Solver("timeout_sec: 2 timeout_nsec: 500000000");
  EXPECT_EQ(mpi.exchange(), "server");
  EXPECT_DOUBLE_EQ(mpi.exchange_timeout(), 2.5);
  EXPECT_FALSE(Solver("timeout_sec: 2 exchange: 'tree'").has_exchange_timeout());
  EXPECT_FALSE(Solver("timeout_sec: 0 timeout_nsec: 0").has_exchange());
  EXPECT_FALSE(Solver("per_parameter_reduce: false").overlap());
  EXPECT_TRUE(Solver("per_parameter_reduce: true").overlap());
  EXPECT_EQ(ErrorText<ConfigError>([] { Solver("warmup_iter: 5\nrampup_interval: 6"); }),
            "s.prototxt: error: both warmup_iter and rampup_interval are given\n"
            "  fix: remove warmup_iter, which is a fork's name of the same");
}

TEST(UpgradeSolver, ReadsForksRatesOfLayersAsLars) {
  const SolverParameter larc = Solver("larc: true larc_policy: 'clip' larc_eta: 0.002");
  EXPECT_EQ(larc.type(), "LARS");
  EXPECT_FLOAT_EQ(larc.trust_coefficient(), 0.002F);
  const SolverParameter intel = Solver("solver_type: SGD local_lr_auto: true local_gw_ratio: 0.5");
  EXPECT_EQ(intel.type(), "LARS");
  EXPECT_FLOAT_EQ(intel.trust_coefficient(), 0.5F);
  EXPECT_EQ(Solver("larc: false").type(), "SGD");
  EXPECT_THAT(ErrorText<ConfigError>([] { Solver("larc: true type: 'Adam'"); }),
              HasSubstr("larc is a setting of type \"SGD\", not of \"Adam\""));
  EXPECT_THAT(ErrorText<ConfigError>([] { Solver("larc: true larc_policy: 'clap'"); }),
              HasSubstr("unknown larc_policy \"clap\""));
}

TEST(UpgradeForkNames, GivesTypesAndFieldsCaffesNames) {
  NetParameter net =
      Net("layer { type: 'DepthwiseConvolution' convolution_param { num_output: 8 group: 4 } }\n"
          "layer { type: 'ConvolutionDepthwise' convolution_param { num_output: 8 } }\n"
          "layer { type: 'Pooling' pooling_param { ceil_mode: false } }\n"
          "layer { type: 'Convolution' convolution_param { hole: 4 } }\n"
          "layer { type: 'Pooling' pooling_param { } }");
  EXPECT_TRUE(UpgradeForkNames(&net));
  EXPECT_EQ(net.layer(0).type(), "Convolution");
  EXPECT_EQ(net.layer(0).convolution_param().group(), 4u);
  EXPECT_EQ(net.layer(1).type(), "Convolution");
  EXPECT_EQ(net.layer(1).convolution_param().group(), 8u);
  EXPECT_EQ(net.layer(2).pooling_param().round_mode(), PoolingParameter::FLOOR);
  EXPECT_EQ(net.layer(3).convolution_param().dilation(0), 4u);
  EXPECT_FALSE(net.layer(4).pooling_param().has_round_mode());
}

}  // namespace
}  // namespace carafe
