// State rules and split insertion: what the layers of a net are before any of them exists.
#include "carafe/net/net_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

NetState State(const std::string& text) {
  NetState state;
  ParseText(text, "state", &state);
  return state;
}

// ---- state rules ----

struct RuleCase {
  const char* name;
  const char* state;
  const char* rules;
  bool included;
};
const char kTrain[] = "phase: TRAIN";
const char kTest[] = "phase: TEST";
const char kStaged[] = "phase: TEST level: 2 stage: \"a\" stage: \"b\"";
const RuleCase kRules[] = {
    {"NoRule", kTrain, "", true},
    {"EmptyInclude", kTrain, "include { }", true},
    {"EmptyExclude", kTrain, "exclude { }", false},
    {"IncludeOwnPhase", kTrain, "include { phase: TRAIN }", true},
    {"IncludeOtherPhase", kTest, "include { phase: TRAIN }", false},
    {"ExcludeOwnPhase", kTest, "exclude { phase: TEST }", false},
    {"ExcludeOtherPhase", kTest, "exclude { phase: TRAIN }", true},
    {"MinLevelBelow", kStaged, "include { min_level: 1 }", true},
    {"MinLevelEqual", kStaged, "include { min_level: 2 }", true},
    {"MinLevelAbove", kStaged, "include { min_level: 3 }", false},
    {"MaxLevelBelow", kStaged, "include { max_level: 1 }", false},
    {"MaxLevelEqual", kStaged, "include { max_level: 2 }", true},
    {"MaxLevelAbove", kStaged, "include { max_level: 3 }", true},
    {"NegativeLevels", "level: -1", "include { min_level: -2 max_level: -1 }", true},
    {"DefaultLevelIsZero", kTrain, "include { min_level: 1 }", false},
    {"ExcludeByLevel", kStaged, "exclude { min_level: 2 }", false},
    {"StagePresent", kStaged, "include { stage: \"a\" }", true},
    {"StageAbsent", kStaged, "include { stage: \"c\" }", false},
    {"AllStagesPresent", kStaged, "include { stage: \"b\" stage: \"a\" }", true},
    {"OneOfTheStagesAbsent", kStaged, "include { stage: \"a\" stage: \"c\" }", false},
    {"NotStagePresent", kStaged, "include { not_stage: \"a\" }", false},
    {"NotStageAbsent", kStaged, "include { not_stage: \"c\" }", true},
    {"OneOfTheNotStagesPresent", kStaged, "include { not_stage: \"c\" not_stage: \"b\" }", false},
    {"StageAndNotStage", kStaged, "include { stage: \"a\" not_stage: \"c\" }", true},
    {"AllPartsMustHold", kStaged, "include { phase: TRAIN stage: \"a\" }", false},
    {"AnyIncludeIsEnough", kStaged, "include { phase: TRAIN } include { stage: \"a\" }", true},
    {"NoIncludeIsMet", kStaged, "include { phase: TRAIN } include { stage: \"c\" }", false},
    {"AnyExcludeIsEnough", kStaged, "exclude { phase: TRAIN } exclude { stage: \"b\" }", false},
    {"NoExcludeIsMet", kStaged, "exclude { phase: TRAIN } exclude { stage: \"c\" }", true},
    {"ExcludeNeedsAllParts", kStaged, "exclude { phase: TEST stage: \"c\" }", true},
};
class StateRule : public ::testing::TestWithParam<RuleCase> {};
TEST_P(StateRule, DecidesWhetherALayerIsIn) {
  const NetSpec spec = ParseNetSpec(
      fmt::format("layer {{ name: \"l\" {} }} layer {{ name: \"always\" }}", GetParam().rules),
      "n");
  const auto layers = FilterLayers(spec.Layers(), State(GetParam().state));
  EXPECT_EQ(layers.size(), GetParam().included ? 2u : 1u);
  EXPECT_EQ(layers.back().param.name(), "always");
}
INSTANTIATE_TEST_SUITE_P(All, StateRule, ::testing::ValuesIn(kRules),
                         [](const auto& info) { return info.param.name; });

TEST(NetSpec, RefusesNumbersThatAreNotFinite) {
  const auto error = [](const std::string& layer) {
    return ErrorText<ConfigError>(
        [&] { ParseNetSpec(fmt::format("layer {{ name: \"r\" {} }}", layer), "n.prototxt"); });
  };
  EXPECT_EQ(error("type: \"ReLU\" relu_param { negative_slope: nan }"),
            "n.prototxt:1:45: error: negative_slope is nan\n  fix: give a finite number");
  EXPECT_EQ(error("loss_weight: 1 loss_weight: inf"),
            "n.prototxt:1:19: error: loss_weight is inf\n  fix: give a finite number");
  EXPECT_EQ(error("param { } param { lr_mult: nan }"),
            "n.prototxt:1:37: error: lr_mult is nan\n  fix: give a finite number");
  EXPECT_EQ(error("param { decay_mult: -inf }"),
            "n.prototxt:1:27: error: decay_mult is -inf\n  fix: give a finite number");
  EXPECT_EQ(error("dummy_data_param { data_filler { value: inf } }"), "no error");
}

TEST(FilterLayers, RefusesIncludeTogetherWithExclude) {
  const NetSpec spec = ParseNetSpec(
      "layer { name: \"l\" type: \"ReLU\"\n  include { phase: TRAIN }\n  exclude { stage: \"a\" } "
      "}",
      "n.prototxt");
  EXPECT_EQ(ErrorText<ConfigError>([&] { FilterLayers(spec.Layers(), State(kTrain)); }),
            "n.prototxt:3:3: error: layer \"l\" (ReLU): include and exclude rules cannot be mixed\n"
            "  fix: use only include rules or only exclude rules");
}

TEST(FilterLayers, KeepsTheOrder) {
  const NetSpec spec = ParseNetSpec(
      "layer { name: \"a\" } layer { name: \"b\" include { phase: TEST } } layer { name: \"c\" }",
      "n");
  std::vector<std::string> names;
  for (const LayerText& layer : FilterLayers(spec.Layers(), State(kTrain))) {
    names.push_back(layer.param.name());
  }
  EXPECT_THAT(names, ElementsAre("a", "c"));
}

// ---- splits ----

std::vector<LayerText> Split(const std::string& text) {
  return InsertSplits(ParseNetSpec(text, "n.prototxt").Layers());
}

// "name: bottoms -> tops", with loss weights behind their top.
std::vector<std::string> Lines(const std::vector<LayerText>& layers) {
  std::vector<std::string> lines;
  for (const LayerText& layer : layers) {
    std::string line = layer.param.name() + ":";
    for (const std::string& bottom : layer.param.bottom()) line += " " + bottom;
    line += " ->";
    for (int t = 0; t < layer.param.top_size(); ++t) {
      line += " " + layer.param.top(t);
      if (t < layer.param.loss_weight_size())
        line += fmt::format("*{}", layer.param.loss_weight(t));
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(InsertSplits, LeavesSingleUsesAlone) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" top: \"y\" }"
                          "layer { name: \"l\" bottom: \"x\" bottom: \"y\" top: \"z\" }")),
              ElementsAre("d: -> x y", "l: x y -> z"));
}

TEST(InsertSplits, NamesSplitsAfterBlobLayerAndTop) {
  const auto layers = Split(
      "layer { name: \"d\" top: \"x\" top: \"y\" }"
      "layer { name: \"a\" bottom: \"y\" top: \"p\" }"
      "layer { name: \"b\" bottom: \"x\" bottom: \"y\" top: \"q\" }"
      "layer { name: \"c\" bottom: \"y\" bottom: \"q\" top: \"r\" }");
  EXPECT_THAT(
      Lines(layers),
      ElementsAre("d: -> x y", "y_d_1_split: y -> y_d_1_split_0 y_d_1_split_1 y_d_1_split_2",
                  "a: y_d_1_split_0 -> p", "b: x y_d_1_split_1 -> q", "c: y_d_1_split_2 q -> r"));
  EXPECT_EQ(layers[1].param.type(), "Split");
}

TEST(InsertSplits, CountsABlobThatALayerTakesTwice) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" }"
                          "layer { name: \"l\" bottom: \"x\" bottom: \"x\" top: \"z\" }")),
              ElementsAre("d: -> x", "x_d_0_split: x -> x_d_0_split_0 x_d_0_split_1",
                          "l: x_d_0_split_0 x_d_0_split_1 -> z"));
}

TEST(InsertSplits, DoesNothingToWhatIsSplitAlready) {
  const auto once = Split(
      "layer { name: \"d\" top: \"x\" loss_weight: 2 }"
      "layer { name: \"i\" bottom: \"x\" top: \"x\" }"
      "layer { name: \"a\" bottom: \"x\" top: \"p\" }"
      "layer { name: \"b\" bottom: \"x\" top: \"q\" }");
  EXPECT_EQ(once.size(), 6u);
  EXPECT_EQ(Lines(InsertSplits(once)), Lines(once));
}

TEST(InsertSplits, TakesAnInPlaceLayerAsTheNewProducer) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" }"
                          "layer { name: \"r\" bottom: \"x\" top: \"x\" }"
                          "layer { name: \"a\" bottom: \"x\" top: \"p\" }"
                          "layer { name: \"b\" bottom: \"x\" top: \"q\" }")),
              ElementsAre("d: -> x", "r: x -> x", "x_r_0_split: x -> x_r_0_split_0 x_r_0_split_1",
                          "a: x_r_0_split_0 -> p", "b: x_r_0_split_1 -> q"));
}

TEST(InsertSplits, SplitsBeforeAnInPlaceLayerThatIsNotTheOnlyUser) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" }"
                          "layer { name: \"a\" bottom: \"x\" top: \"p\" }"
                          "layer { name: \"r\" bottom: \"x\" top: \"x\" }"
                          "layer { name: \"b\" bottom: \"x\" top: \"q\" }")),
              ElementsAre("d: -> x", "x_d_0_split: x -> x_d_0_split_0 x_d_0_split_1",
                          "a: x_d_0_split_0 -> p", "r: x_d_0_split_1 -> x", "b: x -> q"));
}

TEST(InsertSplits, HandsALossWeightToOutputZero) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" }"
                          "layer { name: \"l\" bottom: \"x\" top: \"y\" loss_weight: 2.5 }"
                          "layer { name: \"a\" bottom: \"y\" top: \"p\" }"
                          "layer { name: \"b\" bottom: \"y\" top: \"q\" }")),
              ElementsAre("d: -> x", "l: x -> y*0",
                          "y_l_0_split: y -> y_l_0_split_0*2.5 y_l_0_split_1*0 y_l_0_split_2*0",
                          "a: y_l_0_split_1 -> p", "b: y_l_0_split_2 -> q"));
}

TEST(InsertSplits, SplitsALossWithOneFurtherUser) {
  EXPECT_THAT(
      Lines(Split("layer { name: \"d\" top: \"x\" }"
                  "layer { name: \"l\" bottom: \"x\" top: \"y\" loss_weight: 1 }"
                  "layer { name: \"a\" bottom: \"y\" top: \"p\" }")),
      ElementsAre("d: -> x", "l: x -> y*0", "y_l_0_split: y -> y_l_0_split_0*1 y_l_0_split_1*0",
                  "a: y_l_0_split_1 -> p"));
}

TEST(InsertSplits, TakesNoSplitForALossOrAZeroWeight) {
  EXPECT_THAT(Lines(Split("layer { name: \"d\" top: \"x\" loss_weight: 0 }"
                          "layer { name: \"l\" bottom: \"x\" top: \"y\" loss_weight: 3 }")),
              ElementsAre("d: -> x*0", "l: x -> y*3"));
}

TEST(InsertSplits, SuggestsTheBottomThatWasMeant) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              Split(
                  "layer { name: \"d\" type: \"Input\" top: \"data\" }\n"
                  "layer { name: \"c\" type: \"ReLU\" bottom: \"dtaa\" top: \"y\" }");
            }),
            "n.prototxt:2:32: error: layer \"c\" (ReLU): no earlier layer produces the bottom "
            "\"dtaa\"\n  fix: did you mean \"data\"?");
  EXPECT_EQ(ErrorText<ConfigError>(
                [] { Split("layer { name: \"c\" type: \"ReLU\" bottom: \"x\" top: \"y\" }"); }),
            "n.prototxt:1:32: error: layer \"c\" (ReLU): no earlier layer produces the bottom "
            "\"x\"\n  fix: put a data or Input layer first");
}

TEST(InsertSplits, RefusesABottomThatIsProducedLater) {
  EXPECT_EQ(ErrorText<ConfigError>([] {
              Split(
                  "layer { name: \"d\" type: \"Input\" top: \"x\" }\n"
                  "layer { name: \"a\" type: \"ReLU\" bottom: \"h\" top: \"y\" }\n"
                  "layer { name: \"b\" type: \"ReLU\" bottom: \"x\" top: \"h\" }");
            }),
            "n.prototxt:2:32: error: layer \"a\" (ReLU): no earlier layer produces the bottom "
            "\"h\"\n  fix: layer \"b\" produces it: put that one before");
}

}  // namespace
}  // namespace carafe
