// What a net's plan changes (fusions, algorithms), and what it must not.
#include "carafe/net/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Conv(const char* name, const char* from, int outputs, int kernel) {
  return fmt::format(
      "layer {{ name: \"{0}\" type: \"Convolution\" bottom: \"{1}\" top: \"{0}\"\n"
      "  convolution_param {{ num_output: {2} kernel_size: {3} pad: {4}\n"
      "    weight_filler {{ type: \"xavier\" }} bias_filler {{ type: \"gaussian\" }} }} }}\n",
      name, from, outputs, kernel, kernel / 2);
}

std::string Relu(const char* name, const char* from, const char* to, const char* more = "") {
  return fmt::format("layer {{ name: \"{}\" type: \"ReLU\" bottom: \"{}\" top: \"{}\" {} }}\n",
                     name, from, to, more);
}

const char kInput[] =
    "force_backward: true\n"
    "layer { name: \"in\" type: \"Input\" top: \"x\"\n"
    "  input_param { shape { dim: 2 dim: 3 dim: 12 dim: 10 } } }\n";
const char kLoss[] =
    "layer { name: \"pool\" type: \"Pooling\" bottom: \"c3\" top: \"pool\"\n"
    "  pooling_param { kernel_size: 2 stride: 2 } }\n"
    "layer { name: \"flat\" type: \"Flatten\" bottom: \"pool\" top: \"flat\" }\n"
    "layer { name: \"loss\" type: \"Reduction\" bottom: \"flat\" top: \"loss\" loss_weight: 1\n"
    "  reduction_param { operation: SUMSQ } }\n";

// First layer, 3x3, a branch over a Split, odd channels, and blobs that layers of all kinds read.
std::string Text() {
  return kInput + Conv("c1", "x", 16, 3) + Relu("r1", "c1", "c1") + Conv("c2", "c1", 20, 3) +
         Relu("r2", "c2", "c2") + Conv("c1x1", "c1", 20, 1) +
         "layer { name: \"sum\" type: \"Eltwise\" bottom: \"c2\" bottom: \"c1x1\" top: \"sum\" "
         "}\n" +
         Conv("c3", "sum", 18, 5) + Relu("r3", "c3", "c3", "relu_param { negative_slope: 0.1 }") +
         kLoss;
}

template <typename T>
struct Running {
  Running(const std::string& text, const AlgorithmChoices& choices, bool fuse, int threads = 1)
      : stream(CpuDevice(), threads), net(ParseNetSpec(text, "n.prototxt"), Train()) {
    net.SetPlan(choices, fuse);
    net.Initialise(stream, 1);
    Blob<T>& x = *net.FindBlob("x");
    std::vector<T> values;
    for (int64_t i = 0; i < x.count(); ++i) values.push_back(static_cast<T>(std::sin(7 * i)));
    x.SetData(stream, values);
  }
  static NetState Train() {
    NetState state;
    state.set_phase(TRAIN);
    return state;
  }
  void Step() {
    net.ClearParamDiffs(stream);
    loss = net.Forward(run);
    net.Backward(run);
  }
  std::vector<std::vector<T>> Results() {
    std::vector<std::vector<T>> all = {{static_cast<T>(loss)}};
    for (const char* name : {"x", "c1", "c2", "sum", "c3"}) {
      all.push_back(net.FindBlob(name)->DataToHost(stream));
      all.push_back(net.FindBlob(name)->DiffToHost(stream));
    }
    for (const Param<T>& param : net.params()) all.push_back(param.blob->DiffToHost(stream));
    return all;
  }

  Stream stream;
  RunContext run{.stream = stream};
  Net<T> net;
  double loss = 0;
};

class Plan : public ::testing::TestWithParam<std::tuple<std::string, bool, int>> {};

TEST_P(Plan, GivesWhatThePlainNetGivesInDouble) {
  const auto& [asked, fuse, threads] = GetParam();
  Running<double> plain(Text(), {.asked = "gemm"}, false);
  Running<float> planned(Text(), {.asked = asked}, fuse, threads);
  for (int step = 0; step < 2; ++step) {
    plain.Step();
    planned.Step();
  }
  const auto expected = plain.Results();
  const auto got = planned.Results();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double largest = 0, worst = 0;
    for (size_t k = 0; k < expected[i].size(); ++k) {
      largest = std::max(largest, std::abs(expected[i][k]));
      worst = std::max(worst, std::abs(got[i][k] - expected[i][k]));
    }
    EXPECT_LE(worst, 1e-4 * largest) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Algorithms, Plan,
                         ::testing::Combine(::testing::Values("auto", "gemm", "direct", "winograd",
                                                              "winograd2x2"),
                                            ::testing::Bool(), ::testing::Values(1, 2)));

TEST(PlanOfANet, FusesOnlyAPlainReluInPlaceThatComesNext) {
  const Running<float> fused(Text(), {}, true);
  std::vector<std::string> names;
  for (const Fusion& fusion :
       FindFusions(fused.net.graph(), fused.net.parameters(), MemorySharing::kNone)) {
    names.push_back(fused.net.layers()[static_cast<size_t>(fusion.relu)]->name());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("r1", "r2"));  // r3 has a slope
  const Running<float> apart(
      kInput + Conv("c1", "x", 8, 3) + Relu("r1", "c1", "y") + Conv("c3", "y", 8, 3) + kLoss, {},
      true);
  EXPECT_TRUE(FindFusions(apart.net.graph(), apart.net.parameters(), MemorySharing::kNone).empty());
}

TEST(PlanOfANet, LeavesTheReluToItselfWhereOnlyItsProducerRuns) {
  Running<float> part(Text(), {}, true);
  part.net.ForwardFromTo(part.run, 0, 1);
  const std::vector<float> before = part.net.FindBlob("c1")->DataToHost(part.stream);
  EXPECT_LT(*std::ranges::min_element(before), 0);
  part.net.ForwardFromTo(part.run, 2, 2);
  const std::vector<float> after = part.net.FindBlob("c1")->DataToHost(part.stream);
  EXPECT_EQ(*std::ranges::min_element(after), 0);
}

TEST(PlanOfANet, IsMeasuredToldAndExplained) {
  Running<float> net(Text(), {}, true);
  net.Step();
  const auto measured = MeasureAlgorithms(net.stream, net.net, 1);
  EXPECT_EQ(ChoicesFromText(ChoicesToText(measured)), measured);
  const std::map<std::string, ConvolutionAlgorithm> of_an_old_snapshot = {
      {"3x3p1 8->8 9x9 forward", ConvolutionAlgorithm::kWinograd2x2}};
  EXPECT_EQ(ChoicesFromText("3x3p1 8->8 9x9 n16 forward=winograd2x2\n"), of_an_old_snapshot);
  EXPECT_THAT(ErrorText<ConfigError>([] { ChoicesFromText("3x3 fast"); }),
              HasSubstr("not understood"));
  EXPECT_THAT(ErrorText<ConfigError>([&] { net.net.SetPlan({.asked = "fft"}); }),
              HasSubstr("there is no algorithm \"fft\""));
  net.net.SetPlan({.asked = "measure", .measured = measured});
  net.Step();
  const std::string text = ExplainPlan(net.stream, net.net, 0);
  EXPECT_THAT(text, HasSubstr("c1 (Convolution), with r1"));
  EXPECT_THAT(text, HasSubstr("loss (Reduction), 1 reordered forward"));  // whatever was measured
  EXPECT_THAT(text, HasSubstr("r1 (ReLU), done by c1\n"));
  EXPECT_THAT(text, Not(HasSubstr(" ms")));
}

}  // namespace
}  // namespace carafe
