// Nets of Caffe's first two forms, built and loaded as those of today.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "carafe/base/file.h"
#include "carafe/layers/layer.h"
#include "carafe/net/weights.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

// Padding, groups and LRN as the ImageNet nets of 2013 have them, in small.
const char kV0Net[] = R"(
name: "Small2013"
input: "data"
input_dim: 2 input_dim: 3 input_dim: 19 input_dim: 19
layers {
  layer { name: "conv1" type: "conv" num_output: 8 kernelsize: 5 stride: 2
          weight_filler { type: "gaussian" std: 0.01 } bias_filler { type: "constant" value: 0. }
          blobs_lr: 1. blobs_lr: 2. weight_decay: 1. weight_decay: 0. }
  bottom: "data" top: "conv1"
}
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "pool1" type: "pool" pool: MAX kernelsize: 3 stride: 2 }
         bottom: "conv1" top: "pool1" }
layers { layer { name: "norm1" type: "lrn" local_size: 5 alpha: 0.0001 beta: 0.75 }
         bottom: "pool1" top: "norm1" }
layers { layer { name: "pad2" type: "padding" pad: 2 } bottom: "norm1" top: "pad2" }
layers { layer { name: "conv2" type: "conv" num_output: 6 group: 2 kernelsize: 5 }
         bottom: "pad2" top: "conv2" }
layers { layer { name: "cat" type: "concat" concat_dim: 1 }
         bottom: "conv2" bottom: "norm1" top: "cat" }
layers { layer { name: "fc" type: "innerproduct" num_output: 10 } bottom: "cat" top: "fc" }
layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.5 } bottom: "fc" top: "fc" }
layers { layer { name: "prob" type: "softmax" } bottom: "fc" top: "prob" }
)";

// Two branches with the same weights, rules and a loss that is weighed.
const char kV1Net[] = R"(
name: "Pairs2014"
layers { name: "pairs" type: DUMMY_DATA top: "a" top: "b" top: "same"
         dummy_data_param { num: 4 num: 4 num: 4 channels: 6 channels: 6 channels: 1
                            height: 1 height: 1 height: 1 width: 1 width: 1 width: 1 } }
layers { name: "ip_a" type: INNER_PRODUCT bottom: "a" top: "ip_a"
         param: "w" param: "b" blobs_lr: 1 blobs_lr: 2
         inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layers { name: "act_a" type: SIGMOID bottom: "ip_a" top: "ip_a" }
layers { name: "ip_b" type: INNER_PRODUCT bottom: "b" top: "ip_b"
         param: "w" param: "b" blobs_lr: 1 blobs_lr: 2
         inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layers { name: "act_b" type: SIGMOID bottom: "ip_b" top: "ip_b" }
layers { name: "dist" type: EUCLIDEAN_LOSS bottom: "ip_a" bottom: "ip_b" top: "dist"
         include { phase: TEST } }
layers { name: "loss" type: CONTRASTIVE_LOSS bottom: "ip_a" bottom: "ip_b" bottom: "same"
         top: "loss" loss_weight: 0.5 contrastive_loss_param { margin: 1 } }
)";

NetState In(Phase phase) {
  NetState state;
  state.set_phase(phase);
  return state;
}

std::vector<std::string> LayersOf(const Net<float>& net) {
  std::vector<std::string> layers;
  for (const auto& layer : net.layers()) {
    if (layer->spec().param().type() == "Split") continue;
    layers.push_back(layer->name() + ":" + layer->spec().param().type());
  }
  return layers;
}

TEST(OldNets, OfTheV0FormRun) {
  Stream stream;
  Net<float> net(ParseNetSpec(kV0Net, "v0.prototxt"), In(TEST));
  EXPECT_THAT(LayersOf(net),
              ElementsAre("input:Input", "conv1:Convolution", "relu1:ReLU", "pool1:Pooling",
                          "norm1:LRN", "conv2:Convolution", "cat:Concat", "fc:InnerProduct",
                          "drop:Dropout", "prob:Softmax"));
  EXPECT_EQ(net.FindBlob("conv2")->shape(), (Shape{2, 6, 4, 4}));  // padded: as large as norm1
  net.Initialise(stream, 1);
  RunContext run{.stream = stream};
  net.Forward(run);
  EXPECT_FLOAT_EQ(net.params()[1].lr_mult, 2);
  EXPECT_FLOAT_EQ(net.params()[1].decay_mult, 0);
}

TEST(OldNets, OfTheV1FormRunWithRulesAndSharedWeights) {
  Stream stream;
  Net<float> train(ParseNetSpec(kV1Net, "v1.prototxt"), In(TRAIN));
  EXPECT_THAT(LayersOf(train),
              ElementsAre("pairs:DummyData", "ip_a:InnerProduct", "act_a:Sigmoid",
                          "ip_b:InnerProduct", "act_b:Sigmoid", "loss:ContrastiveLoss"));
  EXPECT_EQ(train.params().size(), 2);
  const Net<float> test(ParseNetSpec(kV1Net, "v1.prototxt"), In(TEST));
  EXPECT_EQ(LayersOf(test).size(), 7);
  train.Initialise(stream, 1);
  RunContext run{.stream = stream};
  train.Forward(run);
  train.Backward(run);
}

std::string BuildError(const std::string& text) {
  return ErrorText<ConfigError>([&] { Net<float>(ParseNetSpec(text, "n.prototxt"), In(TEST)); });
}

TEST(OldNets, HaveTheirErrorsAtTheLinesOfTheirText) {
  const std::string v1 = BuildError(
      "input: \"x\"\ninput_shape { dim: 1 dim: 1 }\nlayers { name: \"ip\" type: INNER_PRODUCT\n"
      "  bottom: \"x\" top: \"y\"\n  inner_product_param { num_output: 0 } }");
  EXPECT_TRUE(v1.starts_with("n.prototxt:5:25: error: layer \"ip\" (InnerProduct): ")) << v1;
  const std::string v0 = BuildError(
      "input: \"x\"\ninput_dim: 1 input_dim: 1 input_dim: 1 input_dim: 1\n"
      "layers { layer { name: \"ip\" type: \"innerproduct\" } bottom: \"x\" top: \"y\" }");
  EXPECT_TRUE(v0.starts_with("n.prototxt:3:1: error: layer \"ip\" (InnerProduct): ")) << v0;
}

// What V1 calls a layer must be a type that can be built.
TEST(OldNets, HaveATypeOfTodayForEveryV1Type) {
  // Those that a build may lack with their file formats.
  const std::set<std::string> elsewhere = {"HDF5Data", "HDF5Output", "ImageData", "MemoryData",
                                           "WindowData"};
  std::set<std::string> names;
  for (int i = V1LayerParameter::LayerType_MIN; i <= V1LayerParameter::LayerType_MAX; ++i) {
    NetParameter net;
    net.add_layers()->set_type(static_cast<V1LayerParameter::LayerType>(i));
    UpgradeNet(&net, "n.prototxt");
    const std::string type = net.layer(0).type();
    names.insert(type);
    if (i == V1LayerParameter::NONE) {
      EXPECT_EQ(type, "");
      continue;
    }
    if (!elsewhere.contains(type)) {
      EXPECT_NE(LayerRegistry::Instance().Find(type), nullptr) << type;
    }
    // Only the spelling differs: ARGMAX, ArgMax.
    std::string plain;
    for (const char c :
         V1LayerParameter::LayerType_Name(static_cast<V1LayerParameter::LayerType>(i)))
      if (c != '_') plain += static_cast<char>(std::tolower(c));
    if (plain == "softmaxloss") plain = "softmaxwithloss";
    std::string lower;
    for (const char c : type) lower += static_cast<char>(std::tolower(c));
    EXPECT_EQ(lower, plain);
  }
  EXPECT_EQ(names.size(), 40);
}

// ---- weights ----

const char kIp[] =
    "layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { dim: 1 dim: 3 } } }\n"
    "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"y\" inner_product_param { "
    "num_output: 2 } }";
const char kLegacyBlobs[] =
    "blobs { num: 1 channels: 1 height: 2 width: 3 data: 1 data: 2 data: 3 data: 4 data: 5 data: 6 "
    "}"
    "blobs { num: 1 channels: 1 height: 1 width: 2 data: 7 data: 8 }";

std::vector<float> LoadedFrom(const std::string& old_net) {
  const TestFolder folder;
  NetParameter file;
  ParseText(old_net, "old", &file);
  WriteFileAtomically(folder / "w.caffemodel", file.SerializeAsString());
  Stream stream;
  Net<float> net(ParseNetSpec(kIp, "n.prototxt"), In(TEST));
  net.Initialise(stream, 1);
  LoadWeights(stream, folder / "w.caffemodel", net);
  std::vector<float> values = net.FindLayerNamed("ip")->blob(0).DataToHost(stream);
  for (const float b : net.FindLayerNamed("ip")->blob(1).DataToHost(stream)) values.push_back(b);
  return values;
}

TEST(OldWeights, OfV0AndV1LoadByNameWithFourAxes) {
  EXPECT_THAT(LoadedFrom(fmt::format("input: 'x' layers {{ name: 'ip' type: INNER_PRODUCT bottom: "
                                     "'x' {} }} layers {{ name: 'other' blobs {{ }} }}",
                                     kLegacyBlobs)),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(LoadedFrom(fmt::format("input: 'x' layers {{ layer {{ name: 'ip' type: "
                                     "'innerproduct' num_output: 2 {} }} bottom: 'x' }}",
                                     kLegacyBlobs)),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ForeignWeights, OfABatchNormThatScalesTooNameTheirRemedy) {
  Stream stream;
  Net<float> net(
      ParseNetSpec("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 "
                   "dim: 3 } } } layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: "
                   "'y' }",
                   "n.prototxt"),
      In(TEST));
  net.Initialise(stream, 1);
  NetParameter file;
  ParseText("layer { name: 'bn' type: 'BatchNorm' blobs {} blobs {} blobs {} blobs {} blobs {} }",
            "", &file);
  EXPECT_EQ(ErrorText<DataError>([&] { CopyWeights(stream, file, "w.caffemodel", net); }),
            "w.caffemodel: error: layer \"bn\" has 5 parameters in the file and 3 in the net\n"
            "  fix: this BatchNorm of NVCaffe or Caffe-MPI scales too: give it batch_norm_param { "
            "scale_bias: true }");
}

TEST(OldWeights, InBothFormsAtOnceAreRefused) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LoadedFrom("layers { name: 'ip' } layer { name: 'ip' }");
            }).substr(0, 5),
            "/tmp/");
}

}  // namespace
}  // namespace carafe
