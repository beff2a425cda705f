#include "carafe/train/layer_schemes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using SchemesByLayer = std::map<std::string, std::string>;

constexpr char kSettings[] = "momentum: 0.9 test_initialization: false snapshot_after_train: false";

class LayerSchemesTest : public SmallTraining {
 protected:
  SolverSpec SpecWith(const SchemesByLayer& schemes, const std::string& settings = kSettings,
                      int batch = 3) const {
    SolverSpec spec = Spec(batch, settings);
    for (LayerParameter& layer : *spec.param.mutable_net_param()->mutable_layer())
      if (const auto found = schemes.find(layer.name()); found != schemes.end())
        layer.set_exchange_scheme(found->second);
    return spec;
  }
  static TrainOptions By(const std::string& exchange, const std::string& plan = "") {
    TrainOptions options = Quiet();
    options.exchange = exchange;
    options.plan = plan;
    return options;
  }
  // The plan of a run on 2 ranks, and what its log says of schemes that are not used.
  struct Run {
    std::string plan, unused;
  };
  static Run RunOf(const SolverSpec& spec, const TrainOptions& options) {
    Run run;
    RunRanks(2, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(spec, options, group, stream);
      if (group.rank() != 0) return;
      run = {PlanText(trainer.solver()), UnusedSchemes(options, trainer.solver())};
    });
    return run;
  }
  std::string Refusal(const SchemesByLayer& schemes, const TrainOptions& options) const {
    return ErrorText<ConfigError>([&] { Train<float>(2, SpecWith(schemes), options); });
  }
};

TEST_F(LayerSchemesTest, ALayerNamesItsSchemeInTheFile) {
  EXPECT_EQ(RunOf(SpecWith({{"ip1", "dense"}}), By("sfb")).plan, "ip1:dense,ip2:sfb");
  EXPECT_EQ(RunOf(SpecWith({{"ip2", "dense"}, {"conv", "dense"}}), By("sfb")).plan,
            "ip1:sfb,ip2:dense");
  for (const char* scheme : {"dense", "sfb"}) {
    const Run run = RunOf(SpecWith({{"ip1", scheme}, {"ip2", scheme}}), By("auto"));
    EXPECT_EQ(run.plan, scheme == std::string("sfb") ? "ip1:sfb,ip2:sfb" : "");
    EXPECT_EQ(run.unused, "");
  }
}

TEST_F(LayerSchemesTest, TheFlagComesFirst) {
  const SolverSpec spec = SpecWith({{"ip1", "dense"}, {"ip2", "dense"}});
  for (const char* exchange : {"sfb", "auto"})
    EXPECT_EQ(RunOf(spec, By(exchange, "ip1:sfb")).plan, "ip1:sfb,ip2:dense") << exchange;
}

TEST_F(LayerSchemesTest, ReachesTheWeightsOfOneWorker) {
  const Weights<double> one = Train<double>(1, Spec(6, kSettings), Quiet());
  const SolverSpec spec = SpecWith({{"ip1", "sfb"}, {"ip2", "dense"}});
  for (const char* exchange : {"allreduce", "sfb", "auto"})
    EXPECT_LE(Difference(one, Train<double>(2, spec, By(exchange))), 1e-10) << exchange;
}

TEST_F(LayerSchemesTest, OtherExchangesSayThatTheyDoNotUseIt) {
  const SolverSpec spec = SpecWith({{"ip1", "sfb"}, {"conv", "sfb"}});
  EXPECT_EQ(RunOf(spec, By("tree")).unused,
            "exchange_scheme of layers is not used by --exchange=tree (but by sfb and auto): "
            "conv:sfb,ip1:sfb");
  EXPECT_EQ(RunOf(Spec(3, kSettings), By("tree")).unused, "");
}

TEST_F(LayerSchemesTest, RefusesWhatCannotBe) {
  for (const char* exchange : {"sfb", "auto", "allreduce"})
    EXPECT_THAT(
        Refusal({{"ip1", "fsb"}}, By(exchange)),
        HasSubstr("layer \"ip1\" (InnerProduct): exchange_scheme is \"fsb\", which names no "
                  "scheme\n  fix: the schemes are dense"));
  const std::string error = Refusal({{"conv", "sfb"}}, By("sfb"));
  EXPECT_THAT(error, HasSubstr("layer \"conv\" (Convolution): it has no factors"));
  EXPECT_THAT(error, HasSubstr("fix: remove exchange_scheme"));
  EXPECT_EQ(Refusal({{"conv", "sfb"}}, By("sfb", "conv:dense")), "no error");
}

// A run that resumes with the same file keeps the plan of its snapshot.
TEST_F(LayerSchemesTest, ResumesWithThePlanOfTheSnapshot) {
  const std::string settings = "momentum: 0.9 test_initialization: false snapshot: 6";
  for (const char* scheme : {"dense", "sfb"}) {
    const SolverSpec spec = SpecWith({{"ip1", scheme}}, settings);
    const Weights<float> whole = Train<float>(2, spec, By("auto"));
    TrainOptions options = By("auto");
    options.snapshot = (folder_ / "snap_iter_6.solverstate").string();
    EXPECT_EQ(Train<float>(2, spec, options), whole) << scheme;
  }
}

}  // namespace
}  // namespace carafe
