#include "carafe/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

SolverSpec Solver(const std::string& more) {
  return ParseSolverSpec(
      "net: \"net.prototxt\" base_lr: 0.1 lr_policy: \"fixed\" max_iter: 1\n" + more,
      "solver.prototxt");
}

TEST(TrainOptions, FlagComesBeforeSolverAndSolverBeforeDefault) {
  TrainOptions asked;
  EXPECT_EQ(WithSolver(asked, Solver("")).exchange, "allreduce");
  EXPECT_EQ(WithSolver(asked, Solver("exchange: \"tree\"")).exchange, "tree");
  EXPECT_EQ(WithSolver(asked, Solver("overlap: false")).overlap, false);
  EXPECT_EQ(WithSolver(asked, Solver("sync_batch_norm: true")).sync_batch_norm, true);
  EXPECT_EQ(WithSolver(asked, Solver("exchange_timeout: 5")).exchange_timeout, 5);
  EXPECT_EQ(WithSolver(asked, Solver("weights: \"a\" weights: \"b\"")).weights, "a,b");
  EXPECT_EQ(WithSolver(asked, Solver("staleness: 3")).staleness, 3);
  EXPECT_EQ(WithSolver(asked, Solver("wire: \"bf16\"")).wire, "bf16");
  asked.exchange = "server";
  asked.overlap = true;
  const TrainOptions both = WithSolver(asked, Solver("exchange: \"tree\" overlap: false"));
  EXPECT_EQ(both.exchange, "server");
  EXPECT_EQ(both.overlap, true);
}

TEST(TrainOptions, EveryValueIsKnownOnceTheSolverIsRead) {
  const TrainOptions options = WithSolver({}, Solver(""));
  for (const auto& row : TrainTable().rows()) {
    if (row.info.name == "threads") continue;
    EXPECT_TRUE(row.value.Get(options)) << row.info.name;
  }
}

TEST(TrainOptions, ABadSolverFieldIsFoundWhereItIsWritten) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] { WithSolver({}, Solver("exchange: \"tre\"")); }),
      "solver.prototxt:2:1: error: exchange is \"tre\"\n"
      "  fix: did you mean \"tree\"? Use one of allreduce, auto, local, server, sfb, ssp, tree");
  EXPECT_EQ(ErrorText<ConfigError>([] { WithSolver({}, Solver("exchange_timeout: 1e6")); }),
            "solver.prototxt:2:1: error: exchange_timeout is 1000000\n"
            "  fix: use 0 to 86400, or a negative number to wait forever");
}

TEST(TrainOptions, ABadValueOfACallerIsNamedAsTheFlag) {
  TrainOptions options;
  options.workers = 5000;
  EXPECT_EQ(ErrorText<ConfigError>([&] { WithSolver(options, Solver("")); }),
            "error: --workers is 5000\n  fix: use 1 to 4096");
}

TEST(TrainOptions, TheLogShowsWhatIsNotTheDefaultAndItsSource) {
  TrainOptions asked;
  EXPECT_EQ(DescribeOptions(asked, WithSolver(asked, Solver(""))), "all at their defaults");
  asked.workers = 2;
  EXPECT_EQ(DescribeOptions(asked, WithSolver(asked, Solver("exchange: \"tree\""))),
            "--workers=2, --exchange=tree (solver)");
}

// What the tests of option pairs and the documentation rely on.
TEST(TrainOptions, EveryRowHasNameSectionHelpAndSamples) {
  std::set<std::string> names;
  for (const OptionInfo& info : TrainInfos()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    for (const std::string& alias : info.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_NE(info.section, "") << info.name;
    EXPECT_NE(info.help, "") << info.name;
    for (const std::string& sample : info.samples)
      TrainTable().Parse({{info.name, sample}});  // does not throw
  }
}

}  // namespace
}  // namespace carafe
