#include "carafe/proto/text.h"

#include <gtest/gtest.h>

#include "carafe/proto/messages.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

const char kNet[] =
    "name: \"n\"\n"
    "layer {\n"
    "  name: \"a\" type: \"InnerProduct\"\n"
    "  param { lr_mult: 1 }\n"
    "  param { lr_mult: 2\n"
    "          decay_mult: 0 }\n"
    "  inner_product_param {\n"
    "    num_output: 3\n"
    "    weight_filler { type: \"xavier\" }\n"
    "  }\n"
    "}\n"
    "layer { name: \"b\" bottom: \"x\" bottom: \"y\" }\n";

std::string At(const Place& place, const std::string& path) { return place.Find(path).ToString(); }

TEST(Place, FindsFieldsAtAnyDepth) {
  NetParameter net;
  const Place place = ParseText(kNet, "n.prototxt", &net);
  EXPECT_EQ(net.layer_size(), 2);
  EXPECT_EQ(At(place, ""), "n.prototxt");
  EXPECT_EQ(At(place, "name"), "n.prototxt:1:1");
  EXPECT_EQ(At(place, "layer[0]"), "n.prototxt:2:1");
  EXPECT_EQ(At(place, "layer[0].type"), "n.prototxt:3:13");
  EXPECT_EQ(At(place, "layer[0].param[1]"), "n.prototxt:5:3");
  EXPECT_EQ(At(place, "layer[0].param[1].decay_mult"), "n.prototxt:6:11");
  EXPECT_EQ(At(place, "layer[0].inner_product_param.num_output"), "n.prototxt:8:5");
  EXPECT_EQ(At(place, "layer[0].inner_product_param.weight_filler.type"), "n.prototxt:9:21");
  EXPECT_EQ(At(place, "layer[1].bottom[1]"), "n.prototxt:12:31");
}

TEST(Place, PointsAtTheDeepestPartThatIsThere) {
  NetParameter net;
  const Place place = ParseText(kNet, "n.prototxt", &net);
  EXPECT_EQ(At(place, "layer[0].inner_product_param.axis"), "n.prototxt:7:3");
  EXPECT_EQ(At(place, "layer[1].inner_product_param.axis"), "n.prototxt:12:1");
  EXPECT_EQ(At(place, "layer[0].param[2].lr_mult"), "n.prototxt:2:1");
  EXPECT_EQ(At(place, "state.level"), "n.prototxt");
  EXPECT_EQ(At(place, "no_such_field"), "n.prototxt");
}

TEST(Place, OfANestedMessageStartsThere) {
  NetParameter net;
  Place layer;
  {
    const Place place = ParseText(kNet, "n.prototxt", &net);
    layer = place.Child("layer", 0);
  }  // a child keeps the positions alive
  EXPECT_EQ(At(layer, ""), "n.prototxt:2:1");
  EXPECT_EQ(At(layer, "param[0].lr_mult"), "n.prototxt:4:11");
  EXPECT_EQ(At(layer.Child("inner_product_param"), "bias_filler"), "n.prototxt:7:3");
  EXPECT_EQ(At(layer.Child("pooling_param"), "kernel_size"), "");
}

TEST(Place, OfAMessageMadeInMemoryIsNowhere) {
  EXPECT_EQ(At(Place(), "layer[0].name"), "");
  EXPECT_EQ(At(Place().Child("layer", 0), "name"), "");
}

std::string ParseError(const std::string& text) {
  return ErrorText<ConfigError>([&] {
    NetParameter net;
    ParseText(text, "n.prototxt", &net);
  });
}

TEST(ParseText, SuggestsTheFieldThatWasMeant) {
  EXPECT_EQ(ParseError("layer {\n  convolution_param { kernal_size: 3 }\n}"),
            "n.prototxt:2:23: error: ConvolutionParameter has no field named \"kernal_size\"\n"
            "  fix: did you mean \"kernel_size\"?");
  EXPECT_EQ(ParseError("layer { name: \"a\" botom: \"x\" }"),
            "n.prototxt:1:19: error: LayerParameter has no field named \"botom\"\n"
            "  fix: did you mean \"bottom\"?");
}

TEST(ParseText, ListsTheFieldsWhereNoneIsNear) {
  EXPECT_EQ(ParseError("layer { dropout_param { probability: 0.5 } }"),
            "n.prototxt:1:25: error: DropoutParameter has no field named \"probability\"\n"
            "  fix: use one of: dropout_ratio");
}

TEST(ParseText, SuggestsTheEnumValueThatWasMeant) {
  EXPECT_EQ(ParseError("layer {\n  pooling_param { pool: AVG }\n}"),
            "n.prototxt:2:25: error: \"AVG\" is not a value of pool\n"
            "  fix: did you mean \"AVE\"?");
  EXPECT_EQ(ParseError("layer { include { phase: TRAINING } }"),
            "n.prototxt:1:26: error: \"TRAINING\" is not a value of phase\n"
            "  fix: use one of: TRAIN, TEST");
}

// Both Eltwise and Reduction have an `operation`, of different types.
TEST(ParseText, SuggestsEnumValuesOfTheMessageThatWasWritten) {
  EXPECT_EQ(ParseError("layer { reduction_param { operation: MEEN } }"),
            "n.prototxt:1:38: error: \"MEEN\" is not a value of operation\n"
            "  fix: did you mean \"MEAN\"?");
  EXPECT_EQ(
      ParseError("# { a comment \"\nlayer { name: \"}{\" eltwise_param { operation: XYZW } }"),
      "n.prototxt:2:47: error: \"XYZW\" is not a value of operation\n"
      "  fix: use one of: PROD, SUM, MAX");
}

TEST(ParseText, PointsAtWrongSyntax) {
  EXPECT_EQ(ParseError("layer {\n  name: \"a\"\n"),
            "n.prototxt:3:1: error: Expected identifier, got: \n"
            "  fix: see the line in question; the syntax is protobuf's text format");
  EXPECT_EQ(ParseError("name \"n\""),
            "n.prototxt:1:6: error: Expected \":\", found \"\"n\"\".\n"
            "  fix: see the line in question; the syntax is protobuf's text format");
  EXPECT_EQ(ParseError("layer { inner_product_param { num_output: \"ten\" } }"),
            "n.prototxt:1:43: error: Expected integer, got: \"ten\"\n"
            "  fix: see the line in question; the syntax is protobuf's text format");
  EXPECT_EQ(ParseError("layer { inner_product_param { num_output: -1 } }"),
            "n.prototxt:1:43: error: Expected integer, got: -\n"
            "  fix: see the line in question; the syntax is protobuf's text format");
  EXPECT_EQ(ParseError("name: \"a\" name: \"b\""),
            "n.prototxt:1:11: error: name is given twice\n  fix: keep one of the two");
}

TEST(ParseText, RefusesNestingWithoutEnd) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "net_param { ";
  SolverParameter solver;
  EXPECT_THROW(ParseText(text, "s.prototxt", &solver), ConfigError);
}

// ---- fields of forks ----

TEST(ForkFields, WithoutEffectAreLeftOutAndAllElseKeepsItsPlace) {
  NetParameter net;
  const Place place = ParseText(
      "default_forward_type: FLOAT16 global_grad_scale: 6 # forward_type: not this\n"
      "layer { name: \"forward_type: x\" forward_type: FLOAT16, type: 'Pooling' forward_math:\n"
      "FLOAT pooling_param { avg_include_pad: true pool: AVE } }",
      "n.prototxt", &net);
  EXPECT_EQ(net.ShortDebugString(),
            "layer { name: \"forward_type: x\" type: \"Pooling\" pooling_param { pool: AVE } }");
  EXPECT_EQ(At(place, "layer[0].type"), "n.prototxt:2:56");
  EXPECT_EQ(At(place, "layer[0].pooling_param.pool"), "n.prototxt:3:45");
}

TEST(ForkFields, OfSolversThatChangeNothingAreLeftOut) {
  SolverParameter solver;
  ParseText(
      "store_blobs_in_old_format: false base_lr: 1\n"
      "solver_data_type: FLOAT",
      "s.prototxt", &solver);
  EXPECT_EQ(solver.ShortDebugString(), "base_lr: 1");
}

TEST(ForkFields, WithAMeaningAreRefusedWithTheForksName) {
  const auto error = [](const std::string& text) {
    return ErrorText<ConfigError>([&] {
      SolverParameter solver;
      ParseText(text, "s.prototxt", &solver);
    });
  };
  EXPECT_EQ(error("base_lr: 1\n  momentum_policy: \"poly\""),
            "s.prototxt:2:3: error: SolverParameter.momentum_policy is a field of NVCaffe and "
            "Caffe-MPI 2.0\n  fix: remove it: momentum stays as it is given");
  EXPECT_EQ(error("device_id: \"0,1\""),
            "s.prototxt:1:12: error: a device_id in quotes is that of PMLS-Caffe\n"
            "  fix: give one number without quotes, or name the devices with --gpu");
  EXPECT_EQ(ParseError("layer { pooling_param { avg_include_pad: false } }"),
            "n.prototxt:1:25: error: PoolingParameter.avg_include_pad is a field of intel/caffe\n"
            "  fix: only \"avg_include_pad: true\" is understood");
  EXPECT_EQ(ParseError("layers { data_param { shared_file_system: false } }"),
            "n.prototxt:1:23: error: DataParameter.shared_file_system is a field of PMLS-Caffe\n"
            "  fix: only \"shared_file_system: true\" is understood");
}

// A value in braces is none of theirs; an error further on is still found at its place.
TEST(ForkFields, DoNotHideOtherErrors) {
  EXPECT_EQ(ParseError("layer { forward_type { } }"),
            "n.prototxt:1:9: error: LayerParameter.forward_type is a field of NVCaffe and "
            "Caffe-MPI 2.0\n  fix: all runs in the precision of the net, float by default");
  EXPECT_EQ(ParseError("layer { forward_type: FLOAT\n botom: 'x' }"),
            "n.prototxt:2:2: error: LayerParameter has no field named \"botom\"\n"
            "  fix: did you mean \"bottom\"?");
}

TEST(FormatText, WritesOneFieldALine) {
  SolverParameter solver;
  ParseText("base_lr: 0.01 train_state { stage: 'a' }", "s.prototxt", &solver);
  EXPECT_EQ(FormatText(solver), "base_lr: 0.01\ntrain_state {\n  stage: \"a\"\n}\n");
}

TEST(ParseTextFile, NamesAFileThatIsNotThere) {
  const std::string text = ErrorText<DataError>([] {
    NetParameter net;
    ParseTextFile("no/such/net.prototxt", &net);
  });
  EXPECT_TRUE(text.starts_with("no/such/net.prototxt: error: ")) << text;
}

}  // namespace
}  // namespace carafe
