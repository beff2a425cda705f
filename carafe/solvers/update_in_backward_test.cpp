// Updates within the backward pass give the bits of those after it, and wait where they must.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"

namespace carafe {
namespace {

std::string InnerProduct(const std::string& name, const std::string& bottom, int outputs,
                         const std::string& more = "") {
  return fmt::format(
      "layer {{ name: \"{}\" type: \"InnerProduct\" bottom: \"{}\" top: \"{}\" {} "
      "inner_product_param {{ num_output: {} weight_filler {{ type: \"xavier\" }} }} }} ",
      name, bottom, name, more, outputs);
}

// All that matters for when a gradient is final: layers in place that are done by others, weights
// that two layers use, frozen ones, a matrix that is updated in parts, and one that leads to no
// loss.
std::string SomeNet(int rows) {
  return fmt::format(
             "layer {{ name: \"in\" type: \"Input\" top: \"x\" top: \"label\" input_param {{ shape "
             "{{ dim: {} dim: 3 dim: 16 dim: 16 }} shape {{ dim: {} }} }} }} "
             "layer {{ name: \"conv\" type: \"Convolution\" bottom: \"x\" top: \"conv\" "
             "convolution_param {{ num_output: 16 kernel_size: 3 pad: 1 weight_filler {{ type: "
             "\"xavier\" }} }} }} "
             "layer {{ name: \"bn\" type: \"BatchNorm\" bottom: \"conv\" top: \"conv\" }} "
             "layer {{ name: \"scale\" type: \"Scale\" bottom: \"conv\" top: \"conv\" scale_param "
             "{{ bias_term: true }} }} "
             "layer {{ name: \"relu\" type: \"ReLU\" bottom: \"conv\" top: \"conv\" }} "
             "layer {{ name: \"pool\" type: \"Pooling\" bottom: \"conv\" top: \"pool\" "
             "pooling_param {{ pool: AVE kernel_size: 2 stride: 2 }} }} ",
             rows, rows) +
         InnerProduct("large", "pool", 1030) + InnerProduct("unused", "pool", 1030) +
         "layer { name: \"end\" type: \"Silence\" bottom: \"unused\" } " +
         InnerProduct("cold", "large", 20, "param { lr_mult: 0 } param { lr_mult: 0 }") +
         InnerProduct("one", "cold", 20, "param { name: \"w\" } param { name: \"b\" }") +
         InnerProduct("other", "one", 20, "param { name: \"w\" } param { name: \"b\" }") +
         "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"other\" bottom: \"label\" "
         "top: \"loss\" } ";
}

std::vector<float> GoodInput(int rows) {
  std::vector<float> x(static_cast<size_t>(rows * 3 * 16 * 16));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 101) / 50 - 1;
  return x;
}

struct Running {
  Running(const std::string& settings, bool early, int rows = 4, int threads = 1,
          BadLoss bad_loss = BadLoss::kDiscardStep)
      : stream(CpuDevice(), threads),
        rows_(rows),
        solver(ParseSolverSpec(fmt::format("base_lr: 0.01 lr_policy: \"step\" gamma: 0.5 stepsize: "
                                           "2 {} net_param {{ {} }}",
                                           settings, SomeNet(rows)),
                               ""),
               stream, {.share_memory = true, .bad_loss = bad_loss}) {
    if (!early) solver.AddCallback({[] {}, [] {}});
    solver.Connect("allreduce", group, {});
    EXPECT_EQ(solver.updates_in_backward(), early) << settings;
    SetInput(GoodInput(rows));
  }
  void SetInput(const std::vector<float>& x) {
    solver.net().FindBlob("x")->SetData(stream, x);
    std::vector<float> labels(static_cast<size_t>(rows_));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % 20);
    solver.net().FindBlob("label")->SetData(stream, labels);
  }
  std::vector<std::vector<float>> Everything() {
    solver.Drain();
    std::vector<std::vector<float>> all;
    for (const auto& param : solver.net().params()) all.push_back(param.blob->DataToHost(stream));
    for (const auto& slot : solver.history()) all.push_back(slot.DataToHost(stream));
    return all;
  }
  Stream stream;
  Group group;
  int rows_;
  Solver<float> solver;
};

class UpdateInBackwardTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UpdateInBackwardTest, GivesTheBitsOfUpdatesAfterTheBackwardPass) {
  const std::string settings = fmt::format("{} weight_decay: 0.01", GetParam());
  Running early(settings, true, 4, 2), late(settings, false, 4, 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(early.solver.Step().loss, late.solver.Step().loss);
    EXPECT_TRUE(early.Everything() == late.Everything()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllRules, UpdateInBackwardTest,
                         ::testing::Values("type: \"SGD\" momentum: 0.9",
                                           "type: \"SGD\" regularization_type: \"L1\"",
                                           "type: \"Nesterov\" momentum: 0.9", "type: \"AdaGrad\"",
                                           "type: \"RMSProp\" rms_decay: 0.9",
                                           "type: \"AdaDelta\" momentum: 0.9", "type: \"Adam\"",
                                           "type: \"AdamW\"", "type: \"LARS\" momentum: 0.9",
                                           "type: \"LAMB\""));

// More rows: the parts are products of OpenBLAS, whose sums may be added in another order.
TEST(UpdateInBackward, GivesTheSameForLargerBatches) {
  for (const int rows : {12, 40}) {
    Running early("momentum: 0.9", true, rows, 2), late("momentum: 0.9", false, rows, 2);
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(early.solver.Step().loss, late.solver.Step().loss, 1e-5) << rows;
    }
    const auto one = early.Everything(), other = late.Everything();
    for (size_t i = 0; i < one.size(); ++i) {
      for (size_t j = 0; j < one[i].size(); ++j) {
        ASSERT_NEAR(one[i][j], other[i][j], 2e-6) << rows << " rows, array " << i;
      }
    }
  }
}

TEST(UpdateInBackward, WaitsWhereGradientsAreSummedOrUsedTogetherOrSeen) {
  for (const char* settings : {"iter_size: 2", "clip_gradients: 1", "snapshot_diff: true"}) {
    Stream stream;
    Group group;
    Solver<float> solver(
        ParseSolverSpec(fmt::format("base_lr: 0.01 lr_policy: \"fixed\" {} net_param {{ {} }}",
                                    settings, SomeNet(2)),
                        ""),
        stream, {.share_memory = true});
    solver.Connect("allreduce", group, {});
    EXPECT_FALSE(solver.updates_in_backward()) << settings;
  }
}

TEST(UpdateInBackward, DiscardsAStepWithABadLoss) {
  Running run("momentum: 0.9", true), late("momentum: 0.9", false);
  for (int i = 0; i < 2; ++i) run.solver.Step();
  const auto before = run.Everything();
  const std::vector<float> bad(4 * 3 * 16 * 16, std::numeric_limits<float>::quiet_NaN());
  run.SetInput(bad);
  EXPECT_EQ(run.solver.Step().bad, 1);
  const auto after = run.Everything();
  for (size_t i = 0; i < before.size(); ++i) {
    const bool running = i >= 2 && i <= 4;  // BatchNorm's statistics are Forward's
    if (running) continue;
    EXPECT_TRUE(after[i] == before[i]) << i;
  }
  EXPECT_EQ(run.solver.iteration(), 2);
  // The next good step finds no trace of it.
  run.SetInput(GoodInput(4));
  run.solver.Step();
  for (int i = 0; i < 3; ++i) late.solver.Step();
  const auto expected = late.Everything(), next = run.Everything();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= 2 && i <= 4) continue;
    EXPECT_TRUE(next[i] == expected[i]) << i;
  }
}

TEST(UpdateInBackward, GivesTheBitsOfOtherUpdatesAfterABadLoss) {
  Running early("momentum: 0.9", true, 4, 1, BadLoss::kUpdate);
  Running late("momentum: 0.9", false, 4, 1, BadLoss::kUpdate);
  const std::vector<float> large(4 * 3 * 16 * 16, std::numeric_limits<float>::max());
  for (Running* run : {&early, &late}) {
    run->solver.Step();
    run->SetInput(large);
    EXPECT_EQ(run->solver.Step().bad, 1);
    EXPECT_EQ(run->solver.iteration(), 2);
  }
  const auto one = early.Everything(), other = late.Everything();
  for (size_t i = 0; i < one.size(); ++i) {  // by bytes: a NaN is not equal to itself
    EXPECT_EQ(std::memcmp(one[i].data(), other[i].data(), one[i].size() * sizeof(float)), 0) << i;
  }
}

TEST(UpdateInBackward, EndsWithACallbackWhichThenSeesAllGradients) {
  Running run("momentum: 0.9", true), late("momentum: 0.9", false);
  for (Running* r : {&run, &late}) r->solver.Step();
  int seen = 0;
  run.solver.AddCallback({[] {},
                          [&] {
                            for (const auto& param : run.solver.net().params()) {
                              if (param.frozen() || param.name.starts_with("unused")) continue;
                              double sum = 0;
                              for (const float d : param.blob->DiffToHost(run.stream)) {
                                sum += std::abs(static_cast<double>(d));
                              }
                              EXPECT_GT(sum, 0) << param.name;
                              ++seen;
                            }
                          }});
  EXPECT_FALSE(run.solver.updates_in_backward());
  for (Running* r : {&run, &late}) r->solver.Step();
  EXPECT_TRUE(run.Everything() == late.Everything());
  EXPECT_EQ(seen, 8);
}

}  // namespace
}  // namespace carafe
