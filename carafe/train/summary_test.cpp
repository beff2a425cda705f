#include "carafe/train/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "carafe/base/error.h"
#include "carafe/train/placeholder_data.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNet[] = R"(
name: "little"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 2 dim: 5 dim: 5 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 3 } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "flat" type: "Flatten" bottom: "conv" top: "flat" }
layer { name: "frozen" type: "InnerProduct" bottom: "flat" top: "a" param { lr_mult: 0 } param { lr_mult: 0 }
        inner_product_param { num_output: 2 } }
layer { name: "first" type: "InnerProduct" bottom: "flat" top: "b" param { name: "w" }
        inner_product_param { num_output: 2 bias_term: false } }
layer { name: "second" type: "InnerProduct" bottom: "flat" top: "c" param { name: "w" }
        inner_product_param { num_output: 2 bias_term: false } }
)";

NetSummary Summary(const std::string& text) {
  NetState state;
  state.set_phase(TRAIN);
  return Summarize(Net<float>(ParseNetSpec(text, "net.prototxt"), state));
}

const LayerCost& LayerNamed(const NetSummary& summary, const std::string& name) {
  for (const LayerCost& cost : summary.layers) {
    if (cost.name == name) return cost;
  }
  throw InternalError("no such layer");
}

TEST(Summary, CountsEachLayer) {
  const NetSummary summary = Summary(kNet);
  EXPECT_EQ(summary.batch, 4);
  const LayerCost& conv = LayerNamed(summary, "conv");
  EXPECT_THAT(conv.tops, ElementsAre(Shape{4, 3, 3, 3}));
  EXPECT_EQ(conv.parameters, 3 * 2 * 9 + 3);
  EXPECT_EQ(conv.multiply_adds, 4 * 27 * 18);
  EXPECT_EQ(conv.activation_bytes, 4 * 27 * 4);
  EXPECT_EQ(conv.exchange_bytes, (3 * 2 * 9 + 3) * 4);
}

TEST(Summary, StatisticsAreNoParametersButAreExchanged) {
  const NetSummary summary = Summary(kNet);
  const LayerCost& bn = LayerNamed(summary, "bn");
  EXPECT_EQ(bn.parameters, 0);
  EXPECT_EQ(bn.statistics, 3 + 3 + 1);
  EXPECT_EQ(bn.exchange_bytes, 7 * 4);
}

TEST(Summary, InPlaceAndViewsTakeNoMemory) {
  const NetSummary summary = Summary(kNet);
  for (const char* name : {"bn", "relu", "flat"}) {
    EXPECT_EQ(LayerNamed(summary, name).activation_bytes, 0) << name;
  }
}

TEST(Summary, FrozenParametersAreNotExchangedAndSharedOnesCountOnce) {
  const NetSummary summary = Summary(kNet);
  const LayerCost& frozen = LayerNamed(summary, "frozen");
  EXPECT_EQ(frozen.parameters, 56);
  EXPECT_EQ(frozen.frozen, 56);
  EXPECT_EQ(frozen.exchange_bytes, 0);
  EXPECT_EQ(LayerNamed(summary, "first").parameters, 54);
  EXPECT_EQ(LayerNamed(summary, "second").parameters, 0);
  EXPECT_EQ(LayerNamed(summary, "second").multiply_adds, 4 * 54);
  EXPECT_EQ(summary.total.parameters, 57 + 56 + 54);
}

TEST(Summary, JsonHoldsExactNumbers) {
  const auto json = nlohmann::json::parse(SummaryJson(Summary(kNet)));
  EXPECT_EQ(json["total"]["parameters"], 57 + 56 + 54);
  EXPECT_EQ(json["total"]["statistics"], 7);
  EXPECT_EQ(json["layers"][1]["multiply_adds_per_image"], 27 * 18);
  EXPECT_EQ(json["layers"][1]["tops"][0]["shape"], (std::vector<int64_t>{4, 3, 3, 3}));
  EXPECT_EQ(json["total"]["tops"][0]["name"], "a");
}

TEST(Summary, TableIsAlignedAndLeavesSplitsOut) {
  const std::string table = SummaryTable(Summary(kNet));
  EXPECT_THAT(table, HasSubstr("\nconv    Convolution   4x3x3x3          57  "));
  EXPECT_THAT(table, HasSubstr("(7)"));
  EXPECT_THAT(table, HasSubstr("outputs: a 4x2, b 4x2, c 4x2\n"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("Split")));
}

TEST(Summary, HumanNumbersKeepThreeOrFourDigits) {
  EXPECT_EQ(HumanNumber(0), "0");
  EXPECT_EQ(HumanNumber(999), "999");
  EXPECT_EQ(HumanNumber(1000), "1.00 k");
  EXPECT_EQ(HumanNumber(431080), "431.1 k");
  EXPECT_EQ(HumanNumber(999960), "1.00 M");
  EXPECT_EQ(HumanNumber(60965224), "60.97 M");
  EXPECT_EQ(HumanNumber(INT64_MAX), "9.22 E");
}

NetSpec DataNet(const std::string& settings) {
  return ParseNetSpec(
      R"(layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
                      data_param { source: "no/such/lmdb" batch_size: 8 backend: LMDB })" +
          settings + "}",
      "net.prototxt");
}

NetState State(Phase phase) {
  NetState state;
  state.set_phase(phase);
  return state;
}

TEST(PlaceholderData, TakesCropSizeAndMeansForTheShape) {
  std::vector<std::string> notes;
  const NetSpec spec =
      WithPlaceholderData(DataNet("transform_param { crop_size: 6 mean_value: 1 mean_value: 2 }"),
                          State(TRAIN), {}, &notes);
  const Net<float> net(spec, State(TRAIN));
  EXPECT_EQ(net.FindBlob("data")->shape(), (Shape{8, 2, 6, 6}));
  EXPECT_EQ(net.FindBlob("label")->shape(), (Shape{8}));
  EXPECT_THAT(notes, ElementsAre("layer \"data\": no/such/lmdb does not exist; assuming batches of "
                                 "8x2x6x6"));
}

TEST(PlaceholderData, RawImagesDeclareTheirShape) {
  std::vector<std::string> notes;
  const NetSpec spec = ParseNetSpec(
      R"(layer { name: "data" type: "ParallelData" top: "data" top: "label"
                 parallel_data_param { root_folder: "no/" source: "such" label: "l" batch_size: 4
                                       new_height: 5 new_width: 6 is_color: false } })",
      "net.prototxt");
  const Net<float> net(WithPlaceholderData(spec, State(TRAIN), {}, &notes), State(TRAIN));
  EXPECT_EQ(net.FindBlob("data")->shape(), (Shape{4, 1, 5, 6}));
  EXPECT_THAT(notes, ElementsAre("layer \"data\": no/such does not exist; assuming batches of "
                                 "4x1x5x6"));
}

TEST(PlaceholderData, AGivenShapeWins) {
  std::vector<std::string> notes;
  const NetSpec spec = WithPlaceholderData(DataNet(""), State(TRAIN), {1, 28, 27}, &notes);
  EXPECT_EQ(Net<float>(spec, State(TRAIN)).FindBlob("data")->shape(), (Shape{8, 1, 28, 27}));
}

TEST(PlaceholderData, UnknownSizeIsAnErrorWithARemedy) {
  std::vector<std::string> notes;
  const std::string text =
      ErrorText<ConfigError>([&] { WithPlaceholderData(DataNet(""), State(TRAIN), {}, &notes); });
  EXPECT_THAT(text, HasSubstr("layer \"data\" (Data): no/such/lmdb does not exist"));
  EXPECT_THAT(text, HasSubstr("--data_shape="));
}

TEST(PlaceholderData, WhatIsWrongWithoutDataTooIsLeftToTheLayer) {
  std::vector<std::string> notes;
  NetSpec spec = DataNet("transform_param { crop_size: 6 }");
  spec.param.mutable_layer(0)->mutable_data_param()->clear_source();
  EXPECT_EQ(WithPlaceholderData(spec, State(TRAIN), {}, &notes).param.layer(0).type(), "Data");
  spec = DataNet("transform_param { crop_size: 6 }");
  spec.param.mutable_layer(0)->mutable_data_param()->set_batch_size(0);
  EXPECT_EQ(WithPlaceholderData(spec, State(TRAIN), {}, &notes).param.layer(0).type(), "Data");
}

TEST(PlaceholderData, LayersOfOtherPhasesAndExistingSourcesStay) {
  std::vector<std::string> notes;
  WithPlaceholderData(DataNet(""), State(TEST), {}, &notes);
  NetSpec there = DataNet("");
  there.param.mutable_layer(0)->mutable_data_param()->set_source("/");
  EXPECT_EQ(WithPlaceholderData(there, State(TRAIN), {}, &notes).param.layer(0).type(), "Data");
  EXPECT_TRUE(notes.empty());
}

}  // namespace
}  // namespace carafe
