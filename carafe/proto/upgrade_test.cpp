#include "carafe/proto/upgrade.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

struct Upgraded {
  NetParameter net;
  NetUpgrade upgrade;
};

Upgraded FromText(const std::string& text) {
  Upgraded result;
  const Place place = ParseText(text, "n.prototxt", &result.net);
  result.upgrade = UpgradeNet(&result.net, "n.prototxt", place);
  return result;
}

std::string UpgradeError(const std::string& text) {
  return ErrorText<ConfigError>([&] { FromText(text); });
}

// The text that the only layer of a net becomes, in one line.
std::string LayerOf(const std::string& text) {
  const NetParameter net = FromText(text).net;
  EXPECT_EQ(net.layers_size(), 0);
  return net.layer_size() == 1 ? net.layer(0).ShortDebugString() : "not one layer";
}

std::string V0(const std::string& settings, const std::string& blobs = "top: \"t\"") {
  return fmt::format("layers {{ layer {{ name: \"l\" {} }} {} }}", settings, blobs);
}

// ---- V0 ----

struct V0Case {
  const char* settings;
  const char* becomes;  // after name: "l"
};
const V0Case kV0Cases[] = {
    {"type: 'accuracy'", "type: \"Accuracy\" top: \"t\""},
    {"type: 'bnll'", "type: \"BNLL\" top: \"t\""},
    {"type: 'concat' concat_dim: 2", "type: \"Concat\" top: \"t\" concat_param { concat_dim: 2 }"},
    {"type: 'conv' num_output: 3 biasterm: false pad: 1 kernelsize: 5 group: 2 stride: 4 "
     "weight_filler { type: 'xavier' } bias_filler { value: 2 } blobs_lr: 1 blobs_lr: 2 "
     "weight_decay: 0",
     "type: \"Convolution\" top: \"t\" param { lr_mult: 1 decay_mult: 0 } param { lr_mult: 2 } "
     "convolution_param { num_output: 3 bias_term: false pad: 1 kernel_size: 5 group: 2 stride: 4 "
     "weight_filler { type: \"xavier\" } bias_filler { value: 2 } }"},
    {"type: 'data' source: 's' meanfile: 'm' batchsize: 2 cropsize: 3 mirror: true scale: 0.5 "
     "rand_skip: 9",
     "type: \"Data\" top: \"t\" transform_param { scale: 0.5 mirror: true crop_size: 3 mean_file: "
     "\"m\" } data_param { source: \"s\" batch_size: 2 rand_skip: 9 }"},
    {"type: 'dropout' dropout_ratio: 0.25",
     "type: \"Dropout\" top: \"t\" dropout_param { dropout_ratio: 0.25 }"},
    {"type: 'euclidean_loss'", "type: \"EuclideanLoss\" top: \"t\""},
    {"type: 'flatten'", "type: \"Flatten\" top: \"t\""},
    {"type: 'hdf5_data' source: 'h' batchsize: 7",
     "type: \"HDF5Data\" top: \"t\" hdf5_data_param { source: \"h\" batch_size: 7 }"},
    {"type: 'hdf5_output' hdf5_output_param { file_name: 'o' }",
     "type: \"HDF5Output\" top: \"t\" hdf5_output_param { file_name: \"o\" }"},
    {"type: 'im2col'", "type: \"Im2col\" top: \"t\""},
    {"type: 'images' source: 'i' batchsize: 4 rand_skip: 2 shuffle_images: true new_height: 5 "
     "new_width: 6",
     "type: \"ImageData\" top: \"t\" image_data_param { source: \"i\" batch_size: 4 rand_skip: 2 "
     "shuffle: true new_height: 5 new_width: 6 }"},
    {"type: 'infogain_loss' source: 'H'",
     "type: \"InfogainLoss\" top: \"t\" infogain_loss_param { source: \"H\" }"},
    {"type: 'innerproduct' num_output: 3 biasterm: true weight_filler { std: 1 } bias_filler { }",
     "type: \"InnerProduct\" top: \"t\" inner_product_param { num_output: 3 bias_term: true "
     "weight_filler { std: 1 } bias_filler { } }"},
    {"type: 'lrn' local_size: 3 alpha: 0.5 beta: 0.25 k: 2",
     "type: \"LRN\" top: \"t\" lrn_param { local_size: 3 alpha: 0.5 beta: 0.25 k: 2 }"},
    {"type: 'multinomial_logistic_loss'", "type: \"MultinomialLogisticLoss\" top: \"t\""},
    {"type: 'pool' pool: STOCHASTIC pad: 1 kernelsize: 3 stride: 2",
     "type: \"Pooling\" top: \"t\" pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 pad: "
     "1 }"},
    {"type: 'relu'", "type: \"ReLU\" top: \"t\""},
    {"type: 'sigmoid'", "type: \"Sigmoid\" top: \"t\""},
    {"type: 'softmax'", "type: \"Softmax\" top: \"t\""},
    {"type: 'softmax_loss'", "type: \"SoftmaxWithLoss\" top: \"t\""},
    {"type: 'split'", "type: \"Split\" top: \"t\""},
    {"type: 'tanh'", "type: \"TanH\" top: \"t\""},
    {"type: 'window_data' source: 'w' meanfile: 'm' batchsize: 8 cropsize: 9 mirror: false "
     "det_fg_threshold: 0.6 det_bg_threshold: 0.4 det_fg_fraction: 0.3 det_context_pad: 4 "
     "det_crop_mode: 'square'",
     "type: \"WindowData\" top: \"t\" transform_param { mirror: false crop_size: 9 mean_file: "
     "\"m\" } window_data_param { source: \"w\" batch_size: 8 fg_threshold: 0.6 bg_threshold: 0.4 "
     "fg_fraction: 0.3 context_pad: 4 crop_mode: \"square\" }"},
};

class V0Layers : public ::testing::TestWithParam<V0Case> {};
TEST_P(V0Layers, BecomeLayersOfToday) {
  EXPECT_EQ(LayerOf(V0(GetParam().settings)), std::string("name: \"l\" ") + GetParam().becomes);
}
INSTANTIATE_TEST_SUITE_P(All24, V0Layers, ::testing::ValuesIn(kV0Cases), [](const auto& info) {
  const std::string text = info.param.settings;
  return text.substr(7, text.find('\'', 7) - 7);
});

TEST(V0, PaddingBecomesThePadOfWhatFollows) {
  const NetParameter net = FromText(
                               "name: 'n' input: 'x' input_dim: 1 input_dim: 2 input_dim: 3 "
                               "input_dim: 4 force_backward: true debug_info: true\n"
                               "layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'x' "
                               "top: 'p' }\n"
                               "layers { layer { name: 'c' type: 'conv' num_output: 1 kernelsize: "
                               "3 } bottom: 'p' top: 'c' }\n"
                               "layers { layer { name: 'q' type: 'padding' pad: 1 } bottom: 'c' "
                               "top: 'q' }\n"
                               "layers { layer { name: 'm' type: 'pool' kernelsize: 2 } bottom: "
                               "'q' top: 'm' }")
                               .net;
  EXPECT_EQ(net.ShortDebugString(),
            "name: \"n\" force_backward: true layer { name: \"input\" type: \"Input\" top: \"x\" "
            "input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } } } layer { name: \"c\" type: "
            "\"Convolution\" bottom: \"x\" top: \"c\" convolution_param { num_output: 1 pad: 2 "
            "kernel_size: 3 } } layer { name: \"m\" type: \"Pooling\" bottom: \"c\" top: \"m\" "
            "pooling_param { kernel_size: 2 pad: 1 } }");
}

TEST(V0, PaddingOfAnotherTypeIsRefused) {
  EXPECT_EQ(UpgradeError("input: 'x'\n"
                         "layers { layer { type: 'padding' } bottom: 'x' top: 'p' }\n"
                         "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }"),
            "n.prototxt:3:1: error: layer \"r\" (relu) reads from a padding layer\n"
            "  fix: only conv and pool can have padding");
}

TEST(V0, SettingsOfOtherTypesAreLeftOutAndTold) {
  const Upgraded result = FromText(V0("type: 'relu' num_output: 3"));
  EXPECT_EQ(result.net.layer(0).ShortDebugString(), "name: \"l\" type: \"ReLU\" top: \"t\"");
  EXPECT_TRUE(result.upgrade.changed);
  EXPECT_FALSE(result.upgrade.complete);
  EXPECT_TRUE(FromText(V0("type: 'relu'")).upgrade.complete);
}

TEST(V0, UnknownTypesAreRefused) {
  EXPECT_EQ(UpgradeError("layers {\n  layer { name: 'l' type: 'convv' }\n}"),
            "n.prototxt:2:21: error: layer \"l\": unknown V0 layer type \"convv\"\n"
            "  fix: did you mean \"conv\"?");
}

TEST(V0, UnknownBottomsAreRefused) {
  EXPECT_EQ(UpgradeError("layers {\n  layer { name: 'l' type: 'relu' }\n  bottom: 'x' }"),
            "n.prototxt:3:3: error: layer \"l\": nothing before it makes the blob \"x\"\n"
            "  fix: correct the name, or declare it with `input`");
}

TEST(V0, MixedWithV1IsRefused) {
  EXPECT_EQ(UpgradeError("layers { layer { type: 'relu' } }\nlayers { type: RELU }"),
            "n.prototxt:2:1: error: V0 and V1 layers are mixed in one net\n"
            "  fix: write all of them as `layers { layer { .. } }`, or none");
}

TEST(V0, BlobsMoveAlong) {
  const NetParameter net =
      FromText(V0("type: 'innerproduct' blobs { num: 1 channels: 1 height: 1 width: 2 data: 5 "
                  "data: 6 }"))
          .net;
  ASSERT_EQ(net.layer(0).blobs_size(), 1);
  EXPECT_EQ(net.layer(0).blobs(0).width(), 2);
  EXPECT_THAT(net.layer(0).blobs(0).data(), ElementsAre(5, 6));
}

// ---- V1 ----

TEST(V1, LayerKeepsAllThatItSays) {
  EXPECT_EQ(LayerOf("layers { name: 'l' type: INNER_PRODUCT bottom: 'a' bottom: 'b' top: 't' "
                    "param: 'w' param: 'v' blob_share_mode: PERMISSIVE blobs_lr: 1 blobs_lr: 0 "
                    "weight_decay: 3 weight_decay: 4 weight_decay: 5 loss_weight: 2 "
                    "include { phase: TEST stage: 's' } blobs { data: 1 } "
                    "inner_product_param { num_output: 7 } transform_param { scale: 2 } }"),
            "name: \"l\" type: \"InnerProduct\" bottom: \"a\" bottom: \"b\" top: \"t\" "
            "loss_weight: 2 param { name: \"w\" share_mode: PERMISSIVE lr_mult: 1 decay_mult: 3 } "
            "param { name: \"v\" lr_mult: 0 decay_mult: 4 } param { decay_mult: 5 } blobs { data: "
            "1 } include { phase: TEST stage: \"s\" } transform_param { scale: 2 } "
            "inner_product_param { num_output: 7 }");
  EXPECT_EQ(LayerOf("layers { exclude { min_level: 1 } }"), "exclude { min_level: 1 }");
}

// All settings that V1 has must be there in `layer` with the same message.
TEST(V1, EverySettingHasItsPlaceInLayer) {
  const auto* v1 = V1LayerParameter::descriptor();
  int settings = 0;
  for (int i = 0; i < v1->field_count(); ++i) {
    const auto* field = v1->field(i);
    if (field->message_type() == nullptr || field->name() == "layer") continue;
    const auto* target = LayerParameter::descriptor()->FindFieldByName(field->name());
    ASSERT_NE(target, nullptr) << field->name();
    EXPECT_EQ(target->message_type(), field->message_type()) << field->name();
    EXPECT_EQ(target->is_repeated(), field->is_repeated()) << field->name();
    ++settings;
  }
  EXPECT_EQ(settings, 33);
}

TEST(V1, NetsKeepStateAndFlags) {
  EXPECT_EQ(FromText("name: 'n' state { phase: TEST stage: 's' } debug_info: true layers { }")
                .net.ShortDebugString(),
            "name: \"n\" state { phase: TEST stage: \"s\" } debug_info: true layer { }");
}

TEST(V1, BesideLayersOfTodayIsRefused) {
  EXPECT_EQ(UpgradeError("layers { name: 'a' }\nlayer { name: 'b' }"),
            "n.prototxt:1:1: error: old `layers` and new `layer` entries are mixed\n"
            "  fix: write all of them as `layer { ... }`");
}

TEST(V1, LayersKeepTheirPlaces) {
  const Upgraded result = FromText(
      "input: 'x'\ninput_dim: 1 input_dim: 1 input_dim: 1 input_dim: 1\n"
      "layers {\n  name: 'a'\n  inner_product_param {\n    num_output: 0 }\n}");
  ASSERT_EQ(result.upgrade.layer_places.size(), 2);
  EXPECT_EQ(result.upgrade.layer_places[0].Find("input_param.shape").ToString(), "n.prototxt:1:1");
  EXPECT_EQ(result.upgrade.layer_places[1].Find("inner_product_param.num_output").ToString(),
            "n.prototxt:6:5");
}

// ---- data fields ----

TEST(DataFields, OfV1MoveToTheTransformation) {
  EXPECT_EQ(LayerOf("layers { type: DATA data_param { source: 's' scale: 2 mean_file: 'm' "
                    "crop_size: 3 mirror: false } transform_param { mean_value: 1 } }"),
            "type: \"Data\" transform_param { scale: 2 mirror: false crop_size: 3 mean_file: "
            "\"m\" mean_value: 1 } data_param { source: \"s\" }");
  EXPECT_EQ(LayerOf("layers { type: IMAGE_DATA image_data_param { scale: 2 } }"),
            "type: \"ImageData\" transform_param { scale: 2 } image_data_param { }");
  EXPECT_EQ(LayerOf("layers { type: WINDOW_DATA window_data_param { crop_size: 2 } }"),
            "type: \"WindowData\" transform_param { crop_size: 2 } window_data_param { }");
}

TEST(DataFields, OfOtherTypesAndOfTodayStay) {
  EXPECT_EQ(LayerOf("layers { type: RELU data_param { scale: 2 } }"),
            "type: \"ReLU\" data_param { scale: 2 }");
  const Upgraded today = FromText("layer { type: 'Data' data_param { scale: 2 } }");
  EXPECT_EQ(today.net.ShortDebugString(), "layer { type: \"Data\" data_param { scale: 2 } }");
  EXPECT_FALSE(today.upgrade.changed);
}

// ---- inputs ----

TEST(Inputs, BecomeOneLayerInFront) {
  EXPECT_EQ(FromText("input: 'a' input_shape { dim: 2 } input: 'b' input_shape { } layer { }")
                .net.ShortDebugString(),
            "layer { name: \"input\" type: \"Input\" top: \"a\" top: \"b\" input_param { shape { "
            "dim: 2 } shape { } } } layer { }");
}

TEST(Inputs, WithoutShapesAreDropped) {
  const Upgraded result = FromText("input: 'a' layer { name: 'l' }");
  EXPECT_EQ(result.net.ShortDebugString(), "layer { name: \"l\" }");
  EXPECT_TRUE(result.upgrade.changed);
}

TEST(Inputs, WithTooFewShapesAreRefused) {
  EXPECT_EQ(UpgradeError("input: 'a'\ninput: 'b'\ninput_shape { dim: 1 }"),
            "n.prototxt:3:1: error: input_shape is given 1 times for 2 inputs\n"
            "  fix: give one input_shape per input");
  EXPECT_EQ(UpgradeError("input: 'a'\ninput_dim: 1"),
            "n.prototxt:2:1: error: input_dim is given 1 times for 1 inputs\n"
            "  fix: give four per input (number, channels, height, width), or use input_shape");
}

// ---- BatchNorm, solver ----

TEST(Upgrade, StopsThreeParametersOfBatchNormFromBeingLearned) {
  NetParameter net;
  ParseText(R"(layer { name: "bn" type: "BatchNorm" param { lr_mult: 1 } param { } param { } }
               layer { name: "ip" type: "InnerProduct" param { lr_mult: 1 } })",
            "net.prototxt", &net);
  EXPECT_TRUE(UpgradeBatchNorm(&net));
  for (const ParamSpec& param : net.layer(0).param()) {
    EXPECT_EQ(param.lr_mult(), 0);
    EXPECT_EQ(param.decay_mult(), 0);
  }
  EXPECT_EQ(net.layer(1).param(0).lr_mult(), 1);
  EXPECT_FALSE(UpgradeBatchNorm(&net));
}

// As snapshots are written, and most nets: no old form.
TEST(Upgrade, CallsABatchNormThatIsNotLearnedUpToDate) {
  NetParameter net;
  ParseText(R"(layer { name: "bn" type: "BatchNorm"
                       param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } })",
            "net.prototxt", &net);
  EXPECT_FALSE(UpgradeBatchNorm(&net));
}

TEST(Upgrade, NamesTheSixOldSolverTypes) {
  const char* names[] = {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"};
  ASSERT_EQ(SolverParameter::SolverType_ARRAYSIZE, 6);
  for (int i = 0; i < 6; ++i) {
    SolverParameter solver;
    solver.set_solver_type(static_cast<SolverParameter::SolverType>(i));
    EXPECT_TRUE(UpgradeSolver(&solver));
    EXPECT_EQ(solver.ShortDebugString(), fmt::format("type: \"{}\"", names[i]));
    EXPECT_FALSE(UpgradeSolver(&solver));
  }
}

TEST(Upgrade, LeavesANetOfTodayAlone) {
  const std::string text = "name: \"n\" layer { name: \"a\" type: \"ReLU\" top: \"a\" }";
  const Upgraded result = FromText(text);
  EXPECT_EQ(result.net.ShortDebugString(), text);
  EXPECT_FALSE(result.upgrade.changed);
  EXPECT_TRUE(result.upgrade.complete);
}

}  // namespace
}  // namespace carafe
