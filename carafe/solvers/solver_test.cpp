// The iteration: passes, votes, updates that wait for their reader, steps that are discarded.
#include "carafe/solvers/solver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/comm/group.h"
#include "carafe/net/weights.h"
#include "tests/support/least_squares.h"

namespace carafe {
namespace {

struct Running {
  explicit Running(const std::string& settings, const std::string& layer_more = "",
                   BadLoss bad_loss = BadLoss::kDiscardStep)
      : solver(ParseSolverSpec(
                   fmt::format("base_lr: 0.1 lr_policy: \"step\" gamma: 0.5 stepsize: 3 {} "
                               "net_param {{ {} }}",
                               settings, LeastSquares::Layer(4, layer_more)),
                   ""),
               stream, {.bad_loss = bad_loss}) {
    solver.Connect("allreduce", group, {.bucket_bytes = 1 << 20});
  }
  std::vector<double> Values() {
    std::vector<double> values;
    for (const auto& param : solver.net().params()) {
      for (const double value : param.blob->DataToHost(stream)) values.push_back(value);
    }
    return values;
  }
  Stream stream;
  Group group;
  Solver<double> solver;
};

double Loss(int64_t pass, const std::vector<double>& v) {
  double loss = 0;
  for (int r = 0; r < 4; ++r) {
    const std::vector<double> row = LeastSquares::Row(pass, r);
    const double error = row[0] * v[0] + row[1] * v[1] + row[2] * v[2] + v[3] - row[3];
    loss += error * error / 8;
  }
  return loss;
}

TEST(Solver, ReportsTheLossBeforeTheUpdateAsMeanOverItsPasses) {
  Running run("iter_size: 3");
  for (int i = 0; i < 4; ++i) {
    run.solver.Drain();
    const std::vector<double> before = run.Values();
    const StepVotes verdict = run.solver.Step();
    const double expected =
        (Loss(3 * i, before) + Loss(3 * i + 1, before) + Loss(3 * i + 2, before)) / 3;
    EXPECT_NEAR(verdict.loss / verdict.weight, expected, 1e-14);
    EXPECT_EQ(verdict.bad, 0);
    EXPECT_EQ(run.solver.iteration(), i + 1);
  }
}

TEST(Solver, UsesTheRateOfTheIterationBeforeTheUpdate) {
  Running run("");
  for (int i = 0; i < 8; ++i) {
    const double expected = 0.1f * std::pow(0.5, i / 3);
    EXPECT_DOUBLE_EQ(run.solver.PeekRate(), expected);
    run.solver.Step();
    EXPECT_DOUBLE_EQ(run.solver.rate(), expected);
  }
}

TEST(Solver, AsksForWishesAndPassesThemOn) {
  Running run("");
  const StepVotes verdict = run.solver.Step({.wishes = [] {
    StepVotes wishes;
    wishes.snapshot = 1;
    return wishes;
  }});
  EXPECT_EQ(verdict.snapshot, 1);
  EXPECT_EQ(verdict.stop, 0);
  EXPECT_GT(verdict.loss, 0);
}

TEST(Solver, UpdatesAtTheNextReadOrDrain) {
  Running drained("momentum: 0.9"), running("momentum: 0.9");
  for (int i = 0; i < 5; ++i) {
    drained.solver.Step();
    drained.solver.Drain();
    running.solver.Step();
  }
  EXPECT_NE(drained.Values(), running.Values());  // the last update is still to come
  running.solver.Drain();
  EXPECT_EQ(drained.Values(), running.Values());
}

TEST(Solver, DiscardsAStepWithABadLoss) {
  Running run("momentum: 0.9"), straight("momentum: 0.9");
  run.solver.Step();
  run.solver.Drain();
  Blob<double>& weights = *run.solver.net().params()[0].blob;
  const std::vector<double> before = weights.DataToHost(run.stream);
  const std::vector<double> bad = {NAN, before[1], before[2]};
  weights.SetData(run.stream, bad);
  EXPECT_EQ(run.solver.Step().bad, 1);
  run.solver.Drain();
  const std::vector<double> after = weights.DataToHost(run.stream);
  EXPECT_EQ(std::vector<double>(after.begin() + 1, after.end()),
            std::vector<double>(bad.begin() + 1, bad.end()));
  EXPECT_EQ(run.solver.iteration(), 1);
  weights.SetData(run.stream, before);
  for (int i = 0; i < 2; ++i) run.solver.Step();
  for (int i = 0; i < 3; ++i) straight.solver.Step();
  run.solver.Drain();
  straight.solver.Drain();
  EXPECT_EQ(run.Values(), straight.Values());
}

TEST(Solver, UpdatesInSpiteOfABadLossWhenAskedTo) {
  Running run("", "", BadLoss::kUpdate);
  Blob<double>& weights = *run.solver.net().params()[0].blob;
  weights.SetData(run.stream, std::vector<double>{NAN, 0, 0});
  EXPECT_EQ(run.solver.Step().bad, 1);
  run.solver.Drain();
  EXPECT_EQ(run.solver.iteration(), 1);
  EXPECT_TRUE(std::isnan(weights.DataToHost(run.stream)[1]));  // by its gradient
}

TEST(Solver, CallsBackWithinTheStep) {
  Running run("momentum: 0.9"), plain("momentum: 0.9");
  std::vector<std::string> calls;
  const auto note = [&](const char* what) {
    calls.push_back(fmt::format("{} {}", what, run.solver.iteration()));
  };
  run.solver.AddCallback({[&] { note("start"); }, [&] { note("ready"); }});
  for (int i = 0; i < 2; ++i) {
    run.solver.Step();
    note("end");
    plain.solver.Step();
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"start 0", "ready 0", "end 1", "start 1", "ready 1",
                                             "end 2"}));
  plain.solver.Drain();
  EXPECT_EQ(run.Values(), plain.Values());  // nothing of the last step is pending
}

TEST(Solver, LeavesFrozenParametersAlone) {
  Running run("weight_decay: 0.5 momentum: 0.9", "param { lr_mult: 0 } param { lr_mult: 1 }");
  for (int i = 0; i < 3; ++i) run.solver.Step();
  run.solver.Drain();
  const std::vector<double> values = run.Values();
  EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 3), std::vector<double>(3, 0.5));
  EXPECT_NE(values[3], -0.25);
  EXPECT_EQ(run.solver.history().size(), 2u);  // as in the original, also for frozen ones
}

// The original computes their update too, and then multiplies it by 0.
TEST(Solver, LetsDecayMoveTheHistoryOfFrozenParameters) {
  const char frozen[] = "param { lr_mult: 0 } param { lr_mult: 1 }";
  Running adagrad("type: \"AdaGrad\" weight_decay: 0.5", frozen);
  for (int i = 0; i < 3; ++i) adagrad.solver.Step();
  adagrad.solver.Drain();
  const double gradient = 0.5 * 0.5;  // decay times value
  EXPECT_DOUBLE_EQ(adagrad.solver.history()[0].DataToHost(adagrad.stream)[0],
                   3 * gradient * gradient);
  EXPECT_EQ(adagrad.Values()[0], 0.5);
  Running sgd("momentum: 0.9 weight_decay: 0.5", frozen);
  for (int i = 0; i < 3; ++i) sgd.solver.Step();
  sgd.solver.Drain();
  EXPECT_EQ(sgd.solver.history()[0].DataToHost(sgd.stream)[0], 0);
}

TEST(Solver, TestsWithTheWeightsOfTheTrainNet) {
  Running run("test_iter: 1 test_interval: 10");
  for (int i = 0; i < 3; ++i) run.solver.Step();
  run.solver.Drain();
  ASSERT_EQ(run.solver.test_nets().size(), 1u);
  EXPECT_NEAR(run.solver.TestForward(0, /*batch=*/7, /*stride=*/1), Loss(7, run.Values()), 1e-14);
}

}  // namespace
}  // namespace carafe
