#include "carafe/train/pmls_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "carafe/base/error.h"
#include "carafe/train/options.h"

namespace carafe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A build with or without the options of managed communication.
PmlsRun RunOn(int size, bool managed) {
  PmlsRun run{.rank = 0, .size = size, .options = {}};
  for (const char* name : {"exchange", "staleness", "workers", "wire", "pin"})
    run.options.push_back({.name = name});
  if (!managed) return run;
  for (const char* name :
       {"consistency", "bandwidth_mbps", "send_order", "combine", "server_update"})
    run.options.push_back({.name = name});
  return run;
}

std::string Refusal(const GivenOptions& given, const PmlsRun& run) {
  try {
    TranslatePmlsFlags(given, run);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PmlsFlags, StalenessIsThatOfTheShardedServer) {
  const PmlsResult result = TranslatePmlsFlags(
      {{"solver", "s"}, {"table_staleness", "3"}, {"svb", "false"}}, RunOn(2, false));
  EXPECT_THAT(result.given, UnorderedElementsAre(Pair("solver", "s"), Pair("exchange", "ssp"),
                                                 Pair("staleness", "3")));
  EXPECT_THAT(result.notes,
              Contains("--table_staleness=3 of PMLS-Caffe: --exchange=ssp --staleness=3"));
  EXPECT_THAT(result.notes, Contains(HasSubstr("base_lr times the number of workers")));
}

TEST(PmlsFlags, FactorsNeedSeveralRanksAndNoStaleness) {
  const GivenOptions given = {{"table_staleness", "0"}, {"svb", "true"}};
  EXPECT_THAT(TranslatePmlsFlags(given, RunOn(2, false)).given,
              UnorderedElementsAre(Pair("exchange", "sfb")));
  EXPECT_THAT(TranslatePmlsFlags(given, RunOn(1, false)).given,
              UnorderedElementsAre(Pair("exchange", "ssp"), Pair("staleness", "0")));
  EXPECT_THAT(Refusal({{"table_staleness", "1"}, {"svb", "true"}}, RunOn(2, false)),
              HasSubstr("factors are exchanged synchronously"));
}

TEST(PmlsFlags, OneThreadIsTheTablesOwn) {
  EXPECT_THAT(TranslatePmlsFlags({{"num_table_threads", "4"}}, RunOn(1, false)).given,
              UnorderedElementsAre(Pair("workers", "3")));
  EXPECT_THAT(Refusal({{"num_table_threads", "1"}}, RunOn(1, false)),
              HasSubstr("leaves no worker"));
}

TEST(PmlsFlags, ManagedCommunicationNeedsItsOptions) {
  const GivenOptions given = {{"consistency_model", "SSPAggr"},
                              {"client_bandwidth_mbps", "100"},
                              {"num_comm_channels_per_client", "2"},
                              {"update_sort_policy", "RelativeMagnitude"}};
  EXPECT_THAT(Refusal(given, RunOn(2, false)),
              HasSubstr("--consistency_model=SSPAggr of PMLS-Caffe needs --consistency"));
  EXPECT_THAT(TranslatePmlsFlags(given, RunOn(2, true)).given,
              UnorderedElementsAre(Pair("exchange", "ssp"), Pair("staleness", "0"),
                                   Pair("consistency", "sspaggr"), Pair("bandwidth_mbps", "280"),
                                   Pair("send_order", "relative_magnitude")));
}

TEST(PmlsFlags, LimitsAndOrderHaveNoEffectWithoutManagedCommunication) {
  const PmlsResult result = TranslatePmlsFlags({{"consistency_model", "SSPPush"},
                                                {"server_bandwidth_mbps", "100"},
                                                {"update_sort_policy", "FIFO"}},
                                               RunOn(2, false));
  EXPECT_THAT(result.given, UnorderedElementsAre(Pair("exchange", "ssp"), Pair("staleness", "0")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("SSPAggr alone limits it")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("SSPAggr alone sorts")));
}

TEST(PmlsFlags, ProcessesMustBeTheLaunchersRanks) {
  EXPECT_THAT(Refusal({{"num_clients", "4"}}, RunOn(1, false)),
              HasSubstr("means 4 processes, but there is one"));
  EXPECT_THAT(Refusal({{"client_id", "1"}}, RunOn(2, false)), HasSubstr("this is rank 0 of 2"));
  const std::string path = ::testing::TempDir() + "pmls_hosts";
  std::ofstream(path) << "0 10.0.0.1 9999\n1 10.0.0.2 9999\n";
  EXPECT_THAT(TranslatePmlsFlags({{"hostfile", path}}, RunOn(2, false)).notes,
              Contains(HasSubstr("2 hosts, one for each rank")));
  EXPECT_THAT(Refusal({{"hostfile", path}}, RunOn(3, false)),
              HasSubstr("means 2 processes, but there are 3"));
  std::filesystem::remove(path);
}

TEST(PmlsFlags, ContradictionsAndOddValuesAreRefused) {
  EXPECT_THAT(Refusal({{"table_staleness", "1"}, {"exchange", "tree"}}, RunOn(2, false)),
              HasSubstr("stands for --exchange=ssp, but --exchange=tree is given"));
  EXPECT_THAT(Refusal({{"consistency_model", "BSP"}}, RunOn(2, false)),
              HasSubstr("is no consistency model"));
  EXPECT_THAT(Refusal({{"update_sort_policy", "FixedOrder"}}, RunOn(2, true)),
              HasSubstr("is no order that exists here"));
  EXPECT_THAT(Refusal({{"snapshot_clock", "10"}}, RunOn(2, false)),
              HasSubstr("has no counterpart here"));
  EXPECT_THAT(Refusal({{"table_staleness", "-1"}}, RunOn(2, false)),
              HasSubstr("--table_staleness"));
}

TEST(PmlsFlags, EveryFlagHasANote) {
  const std::string path = ::testing::TempDir() + "pmls_host";
  std::ofstream(path) << "0 127.0.0.1 9999\n";
  const GivenOptions special = {{"hostfile", path},
                                {"client_id", "0"},
                                {"num_clients", "1"},
                                {"num_table_threads", "2"},
                                {"consistency_model", "SSPAggr"},
                                {"update_sort_policy", "FIFO"},
                                {"snapshot_clock", "-1"},
                                {"resume_clock", "-1"},
                                {"server_table_logic", "-1"},
                                {"snapshot_dir", ""},
                                {"resume_dir", ""},
                                {"row_type", "0"}};
  for (const PmlsFlag& flag : PmlsFlags()) {
    const auto found = special.find(flag.name);
    const std::string value = found != special.end() ? found->second
                              : flag.is_switch       ? "true"
                                                     : "1";
    const PmlsResult result = TranslatePmlsFlags({{flag.name, value}}, RunOn(1, true));
    EXPECT_THAT(result.notes, Contains(HasSubstr("--" + flag.name + "="))) << flag.name;
    EXPECT_FALSE(result.given.contains(flag.name)) << flag.name;
  }
  std::filesystem::remove(path);
}

TEST(PmlsFlags, NoneIsAnOptionOfOurs) {
  for (const OptionInfo& info : TrainInfos())
    for (const PmlsFlag& flag : PmlsFlags()) EXPECT_NE(flag.name, info.name);
}

}  // namespace
}  // namespace carafe
