#include "carafe/solvers/solver_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string ErrorOf(const std::string& text) {
  return ErrorText<ConfigError>([&] {
    const SolverSpec spec = ParseSolverSpec(text, "s.prototxt");
    TrainNetOf(spec);
    TestNetsOf(spec);
  });
}

const char kNet[] = "net_param { layer { name: \"a\" type: \"Input\" top: \"a\" } }\n";

struct ErrorCase {
  const char* name;
  const char* text;
  const char* error;
};
const ErrorCase kErrors[] = {
    {"NanRate", "base_lr: nan",
     "s.prototxt:2:1: error: base_lr is nan\n  fix: give a finite number"},
    {"InfiniteDecay", "base_lr: 1 weight_decay: -inf",
     "s.prototxt:2:12: error: weight_decay is -inf\n  fix: give a finite number"},
    {"RateBeyondAFloat", "base_lr: 1e99",
     "s.prototxt:2:1: error: base_lr is inf\n  fix: give a finite number"},
    {"UnknownType", "type: \"Adamm\"",
     "s.prototxt:2:1: error: unknown solver type \"Adamm\"\n  fix: did you mean \"Adam\" or "
     "\"AdamW\"?"},
    {"BothTypes", "type: \"SGD\" solver_type: ADAM",
     "s.prototxt:2:13: error: both `type` and the old `solver_type` are given\n"
     "  fix: remove solver_type"},
    {"MomentumForAdaGrad", "type: \"AdaGrad\" momentum: 0.9",
     "s.prototxt:2:17: error: AdaGrad has no momentum, but momentum is 0.9\n"
     "  fix: remove the line, or use another solver type"},
    {"MomentumForRmsProp", "type: \"RMSProp\" momentum: 0.9",
     "s.prototxt:2:17: error: RMSProp has no momentum, but momentum is 0.9\n"
     "  fix: remove the line, or use another solver type"},
    {"RmsDecayOfOne", "type: \"RMSProp\" rms_decay: 1",
     "s.prototxt:2:17: error: rms_decay is 1\n  fix: give a value from 0 to below 1, e.g. 0.99"},
    {"NegativeRmsDecay", "type: \"RMSProp\" rms_decay: -0.5",
     "s.prototxt:2:17: error: rms_decay is -0.5\n"
     "  fix: give a value from 0 to below 1, e.g. 0.99"},
    {"L1ForLars", "type: \"LARS\" weight_decay: 0.1 regularization_type: \"L1\"",
     "s.prototxt:2:32: error: LARS knows weight decay as L2 only\n"
     "  fix: use regularization_type: \"L2\", or leave the line away"},
    {"L1ForLamb", "type: \"LAMB\" weight_decay: 0.1 regularization_type: \"L1\"",
     "s.prototxt:2:32: error: LAMB knows weight decay as L2 only\n"
     "  fix: use regularization_type: \"L2\", or leave the line away"},
    {"NoTrust", "type: \"LARS\" trust_coefficient: 0",
     "s.prototxt:2:14: error: trust_coefficient is 0\n  fix: give a value above 0, e.g. 0.001"},
    {"UnknownRegularization", "weight_decay: 1 regularization_type: \"L3\"",
     "s.prototxt:2:17: error: unknown regularization_type \"L3\"\n  fix: use \"L1\" or \"L2\""},
    {"IterSizeZero", "iter_size: 0",
     "s.prototxt:2:1: error: iter_size is 0\n  fix: give at least 1"},
    {"AverageLossZero", "average_loss: 0",
     "s.prototxt:2:1: error: average_loss is 0\n  fix: give at least 1"},
    {"NegativeMaxIter", "max_iter: -1",
     "s.prototxt:2:1: error: max_iter is -1\n  fix: give the number of iterations"},
    {"NegativeSnapshot", "snapshot: -5",
     "s.prototxt:2:1: error: snapshot is -5\n"
     "  fix: give 0 or the iterations between two snapshots"},
    {"NegativeDisplay", "display: -1",
     "s.prototxt:2:1: error: display is -1\n  fix: give 0 or the iterations between two log lines"},
    {"NegativeTestInterval", "test_interval: -1",
     "s.prototxt:2:1: error: test_interval is -1\n"
     "  fix: give 0 or the iterations between two tests"},
    {"TestWithoutInterval", "test_iter: 1",
     "s.prototxt: error: there are test nets, but test_interval is 0 or missing\n"
     "  fix: add e.g. test_interval: 500"},
    {"TestStateCount", "test_iter: 1 test_interval: 1\ntest_state { } test_state { }",
     "s.prototxt:3:1: error: test_state is given 2 times for 1 test nets\n"
     "  fix: give none, or one per test net"},
    {"TestNetWithoutIter", "test_net_param { }",
     "s.prototxt: error: test_iter is given 0 times for 1 test nets\n"
     "  fix: give one test_iter per test net"},
    {"SecondNet", "train_net: \"x\"",
     "s.prototxt:2:1: error: the solver names several nets\n"
     "  fix: give exactly one of net, net_param, train_net, train_net_param"},
    {"MisspeltField", "weight_decai: 1",
     "s.prototxt:2:1: error: SolverParameter has no field named \"weight_decai\"\n"
     "  fix: did you mean \"weight_decay\"?"},
};
class SolverSpecError : public ::testing::TestWithParam<ErrorCase> {};
TEST_P(SolverSpecError, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf(std::string(kNet) + GetParam().text), GetParam().error);
}
INSTANTIATE_TEST_SUITE_P(All, SolverSpecError, ::testing::ValuesIn(kErrors),
                         [](const auto& info) { return info.param.name; });

TEST(SolverSpec, WithoutANetIsRefused) {
  EXPECT_EQ(ErrorOf("base_lr: 1"),
            "s.prototxt: error: the solver names no net\n"
            "  fix: give exactly one of net, net_param, train_net, train_net_param");
}

TEST(SolverSpec, IgnoresTheRegularizationTypeWithoutDecay) {
  EXPECT_EQ(ErrorOf(std::string(kNet) + "regularization_type: \"L3\""), "no error");
}

TEST(SolverSpec, ReadsTheOldSolverTypes) {
  const std::pair<const char*, const char*> types[] = {
      {"SGD", "SGD"},         {"NESTEROV", "Nesterov"}, {"ADAGRAD", "AdaGrad"},
      {"RMSPROP", "RMSProp"}, {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"}};
  for (const auto& [old_name, name] : types) {
    const SolverSpec spec = ParseSolverSpec(std::string("solver_type: ") + old_name, "s.prototxt");
    EXPECT_EQ(spec.param.type(), name);
    EXPECT_FALSE(spec.param.has_solver_type());
  }
}

TEST(SolverSpec, TakesItsOwnPathAsSnapshotPrefix) {
  EXPECT_EQ(ParseSolverSpec("", "a/lenet_solver.prototxt").param.snapshot_prefix(),
            "a/lenet_solver");
  EXPECT_EQ(ParseSolverSpec("", "").param.snapshot_prefix(), "solver");
  EXPECT_EQ(ParseSolverSpec("snapshot_prefix: \"b/x\"", "a/s.prototxt").param.snapshot_prefix(),
            "b/x");
}

TEST(SolverSpec, PutsItsNameIntoASnapshotPrefixThatIsAFolder) {
  const TestFolder folder;
  std::filesystem::create_directory(folder / "out");
  const SolverSpec spec = ParseSolverSpec(fmt::format("snapshot_prefix: \"{}\"", folder / "out"),
                                          "a/lenet_solver.prototxt");
  EXPECT_EQ(spec.param.snapshot_prefix(), folder / "out/lenet_solver");
}

std::vector<std::string> Stages(const SolverNet& net) {
  return {net.state.stage().begin(), net.state.stage().end()};
}

TEST(SolverSpec, MergesTheStateOfNetSolverAndCommandLine) {
  const SolverSpec spec = ParseSolverSpec(
      "net_param { name: \"n\" state { level: 1 stage: \"net\" } }\n"
      "train_state { level: 2 stage: \"train\" }\n"
      "test_iter: 1 test_iter: 1 test_interval: 1\n"
      "test_state { stage: \"first\" } test_state { level: 5 }",
      "s.prototxt");
  const SolverNet train = TrainNetOf(spec, 0, {"cli"});
  EXPECT_EQ(train.state.phase(), TRAIN);
  EXPECT_EQ(train.state.level(), 2);
  EXPECT_THAT(Stages(train), ElementsAre("net", "train", "cli"));
  const std::vector<SolverNet> tests = TestNetsOf(spec, 0, {"cli"});
  ASSERT_EQ(tests.size(), 2u);
  EXPECT_EQ(tests[0].state.phase(), TEST);
  EXPECT_EQ(tests[0].state.level(), 1);
  EXPECT_THAT(Stages(tests[0]), ElementsAre("net", "first", "cli"));
  EXPECT_EQ(tests[1].state.level(), 5);
  EXPECT_EQ(TrainNetOf(spec, 7).state.level(), 7);
}

TEST(SolverSpec, OrdersTestNetsInlineThenFilesThenTheTrainNetsFile) {
  const TestFolder folder;
  WriteFileAtomically(folder / "t.prototxt", "name: \"from file\"");
  WriteFileAtomically(folder / "n.prototxt", "name: \"shared\"");
  const std::string text = fmt::format(
      "net: \"{}\" test_net: \"{}\" test_net_param {{ name: \"inline\" }} "
      "test_iter: 1 test_iter: 2 test_iter: 3 test_interval: 1",
      folder / "n.prototxt", folder / "t.prototxt");
  const SolverSpec spec = ParseSolverSpec(text, "s.prototxt");
  std::vector<std::string> names;
  for (const SolverNet& net : TestNetsOf(spec)) names.push_back(net.spec.param.name());
  EXPECT_THAT(names, ElementsAre("inline", "from file", "shared"));
}

TEST(SolverSpec, UpgradesAnInlineNet) {
  const SolverSpec spec = ParseSolverSpec(
      "net_param { layer { type: \"BatchNorm\" param { } param { } param { } } }", "s.prototxt");
  EXPECT_EQ(TrainNetOf(spec).spec.param.layer(0).param(2).lr_mult(), 0);
}

// The form of Caffe's own examples/mnist/lenet_consolidated_solver.prototxt.
TEST(SolverSpec, UpgradesOldLayersOfInlineNets) {
  const SolverSpec spec = ParseSolverSpec(
      "solver_type: NESTEROV\ntrain_net_param { layers { name: \"d\" type: DATA data_param { "
      "scale: "
      "2 } } }\ntest_net_param {\n  input: \"x\" input_dim: 1 input_dim: 1 input_dim: 1 input_dim: "
      "1"
      "\n  layers { name: \"r\" type: RELU }\n}\ntest_iter: 1 test_interval: 1",
      "s.prototxt");
  EXPECT_EQ(spec.param.type(), "Nesterov");
  EXPECT_EQ(TrainNetOf(spec).spec.param.ShortDebugString(),
            "layer { name: \"d\" type: \"Data\" transform_param { scale: 2 } data_param { } }");
  const std::vector<SolverNet> tests = TestNetsOf(spec);
  ASSERT_EQ(tests.size(), 1);
  const std::vector<LayerText> layers = tests[0].spec.Layers();
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers[0].place.Find("top").ToString(), "s.prototxt:4:3");
  EXPECT_EQ(layers[1].place.Find("type").ToString(), "s.prototxt:5:22");
}

TEST(SolverSpec, PointsIntoAnInlineNet) {
  const SolverSpec spec =
      ParseSolverSpec("base_lr: 1\nnet_param {\n  layer { name: \"x\" }\n}", "s.prototxt");
  EXPECT_EQ(TrainNetOf(spec).spec.place.Find("layer[0].name").ToString(), "s.prototxt:3:11");
}

}  // namespace
}  // namespace carafe
