#include "carafe/train/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "carafe/layers/layer.h"
#include "carafe/proto/fork_layers.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Check : public ::testing::Test {
 protected:
  CheckReport Report(const std::string& text, const CheckSettings& settings = {}) {
    const std::string path = folder_ / "file.prototxt";
    std::ofstream(path) << text;
    return CheckFile(path, settings);
  }
  std::string Error(const std::string& text, const CheckSettings& settings = {}) {
    return ErrorText<ConfigError>([&] { Report(text, settings); });
  }
  TestFolder folder_;
};

// As in Caffe's mnist_autoencoder: TEST has data only in one of its stages.
constexpr char kStages[] =
    "layer { name: 'data' type: 'DummyData' top: 'x' include { phase: TRAIN }\n"
    "  dummy_data_param { shape { dim: 2 dim: 3 } } }\n"
    "layer { name: 'data' type: 'DummyData' top: 'x' include { phase: TEST stage: 'on-train' }\n"
    "  dummy_data_param { shape { dim: 2 dim: 3 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
    "  inner_product_param { num_output: 1 } }\n";

TEST_F(Check, ReportsWhatBuildsInEachPhaseAndStage) {
  EXPECT_THAT(Report(kStages).lines,
              ElementsAre(StartsWith("TRAIN: 2 layers"), HasSubstr("TEST: cannot be built: "),
                          StartsWith("TEST of stage on-train: 2 layers")));
}

TEST_F(Check, FailsWhereTheNamedPhaseCannotBeBuilt) {
  EXPECT_THAT(Error(kStages, {.data_shape = {}, .phase = TEST, .stages = {}}),
              HasSubstr("no earlier layer produces the bottom \"x\""));
  EXPECT_THAT(Report(kStages, {.data_shape = {}, .phase = TEST, .stages = {"on-train"}}).lines,
              ElementsAre(StartsWith("TEST of stage on-train: 2 layers")));
  EXPECT_THAT(Report(kStages, {.data_shape = {}, .phase = TRAIN, .stages = {}}).lines,
              ElementsAre(StartsWith("TRAIN: 2 layers")));
}

TEST_F(Check, FailsWhereNothingCanBeBuilt) {
  EXPECT_THAT(Error("layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' }"),
              HasSubstr("no earlier layer produces the bottom \"x\""));
}

TEST_F(Check, KnowsALabelMap) {
  const std::string two =
      "item { name: 'a' label: 0 display_name: 'A' }\nitem { name: 'b' label: 1 }";
  const CheckReport report = Report(two);
  EXPECT_EQ(report.kind, "label map");
  EXPECT_THAT(report.lines, ElementsAre("2 labels"));
  EXPECT_THAT(Error(two + "item { name: 'c' label: 1 }"),
              HasSubstr("label 1 is given to two items"));
}

// Placeholders are Input layers, of which the user knows nothing.
TEST_F(Check, ReportsASecondDataLayerAsWhatItIs) {
  const std::string data =
      "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'none' batch_size: 2 } }\n";
  EXPECT_THAT(Error(data + data, {.data_shape = {1, 4, 4}, .phase = {}, .stages = {}}),
              HasSubstr("layer \"d\" (Data): the top \"data\" is produced by layer \"d\" already"));
}

// Else an error would name a fork for what is built.
TEST(ForkLayers, AreNotBuilt) {
  for (const ForkLayer& layer : ForkLayers()) {
    EXPECT_EQ(LayerRegistry::Instance().Find(std::string(layer.type)), nullptr) << layer.type;
  }
}

}  // namespace
}  // namespace carafe
