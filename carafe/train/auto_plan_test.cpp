#include "carafe/train/auto_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/train/layer_schemes.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

constexpr char kSettings[] = "momentum: 0.9 test_initialization: false snapshot: 6";

class AutoPlanTest : public SmallTraining {
 protected:
  static TrainOptions Auto(const std::string& plan = "") {
    TrainOptions options = Quiet();
    options.exchange = "auto";
    options.plan = plan;
    return options;
  }
  // The plans that the ranks have stored.
  std::vector<TrainingPlan> Plans(int ranks, const TrainOptions& options) const {
    std::vector<TrainingPlan> plans(static_cast<size_t>(ranks));
    RunRanks(ranks, [&](Group& group) {
      Stream stream;
      Solver<float> solver(Spec(3, kSettings), stream,
                           {.replica = {.index = group.rank(), .count = group.size()}});
      TrainingState state;
      const LayerPlan plan =
          MakeAutoPlan<float>(solver, group, {}, AskedPlan(options, solver), &state);
      EXPECT_EQ(plan.Text(), state.training_plan().layers());
      At(plans, group.rank()) = state.training_plan();
    });
    return plans;
  }
};

TEST_F(AutoPlanTest, ChoosesTheSameForEveryLayerOnAllRanks) {
  for (const int ranks : {2, 3}) {
    const std::vector<TrainingPlan> plans = Plans(ranks, Auto());
    const LayerPlan plan = LayerPlan::Parse(plans[0].layers());
    ASSERT_EQ(plan.layers.size(), 2U);
    EXPECT_EQ(plan.layers[0].first, "ip1");
    EXPECT_EQ(plan.layers[1].first, "ip2");
    EXPECT_EQ(plans[0].ranks(), ranks);
    for (const TrainingPlan& other : plans) EXPECT_EQ(other.layers(), plans[0].layers());
  }
}

TEST_F(AutoPlanTest, KeepsWhatWasAskedFor) {
  for (const char* plan : {"ip1:sfb,ip2:dense", "ip1:dense,ip2:sfb"})
    EXPECT_EQ(Plans(2, Auto(plan))[0].layers(), plan);
  const LayerPlan one = LayerPlan::Parse(Plans(2, Auto("ip2:sfb"))[0].layers());
  EXPECT_EQ(one.Find("ip2"), LayerScheme::kFactors);
  EXPECT_TRUE(one.Find("ip1").has_value());
}

TEST_F(AutoPlanTest, OneRankHasNothingToPlan) { EXPECT_FALSE(Plans(1, Auto())[0].has_layers()); }

TEST_F(AutoPlanTest, ReachesTheWeightsOfOneWorker) {
  const Weights<double> one = Train<double>(1, Spec(6, "momentum: 0.9"), Quiet());
  for (const char* plan : {"", "ip1:sfb,ip2:sfb", "ip1:dense,ip2:sfb"})
    EXPECT_LE(Difference(one, Train<double>(2, Spec(3, "momentum: 0.9"), Auto(plan))), 1e-10);
}

// The plan of a run that resumes.
std::string ResumedPlan(int ranks, const SolverSpec& spec, const TrainOptions& options) {
  std::string text;
  RunRanks(ranks, [&](Group& group) {
    Stream stream;
    Trainer<float> trainer(spec, options, group, stream);
    if (group.rank() == 0) text = PlanText(trainer.solver());
  });
  return text;
}

TEST_F(AutoPlanTest, ResumesWithThePlanOfTheSnapshotAndItsBits) {
  for (const char* plan : {"ip1:sfb,ip2:dense", "ip1:dense,ip2:sfb"}) {
    const Weights<float> whole = Train<float>(2, Spec(3, kSettings), Auto(plan));
    TrainOptions options = Auto();
    options.snapshot = (folder_ / "snap_iter_6.solverstate").string();
    EXPECT_EQ(ResumedPlan(2, Spec(3, kSettings), options), plan);
    EXPECT_EQ(Train<float>(2, Spec(3, kSettings), options), whole);
  }
}

}  // namespace
}  // namespace carafe
