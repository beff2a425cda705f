// The line of the log that says what an exchange does, and why it does not begin inside the hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/host_of_rank.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(WhyFlat, NamesTheReasonAndTheRemedy) {
  EXPECT_EQ(WhyFlat({"a", "a", "a", "b", "b", "b"}),
            "hosts have 3 ranks each, not a power of two: start 2 or 4 on each");
  EXPECT_EQ(WhyFlat({"a", "b", "a", "b"}),
            "ranks of one host are not neighbours: use mpirun --map-by slot or srun -m block");
  EXPECT_EQ(WhyFlat({"a", "a", "b", "b", "a", "a", "b", "b"}),
            "ranks of one host are not neighbours: use mpirun --map-by slot or srun -m block");
  EXPECT_EQ(WhyFlat({"a", "a", "b", "b", "b"}),
            "hosts have 2 to 3 ranks: start as many on each, a power of two");
  EXPECT_EQ(WhyFlat({"a", "b", "b"}),
            "hosts have 1 to 2 ranks: start as many on each, a power of two");
  // Order helps neither.
  EXPECT_EQ(WhyFlat({"a", "b", "a", "b", "a"}),
            "hosts have 2 to 3 ranks: start as many on each, a power of two");
}

TEST(WhyFlat, SaysNothingWhereSumsBeginInsideHostsOrNothingIsToBeGained) {
  EXPECT_EQ(WhyFlat({"a", "a", "b", "b"}), "");
  EXPECT_EQ(WhyFlat({"a", "b", "c"}), "");
  EXPECT_EQ(WhyFlat({"a", "a", "a"}), "");
}

std::string Described(const std::vector<std::string>& hosts, const std::string& exchange,
                      const SchemeSettings& settings = {}) {
  std::string line;
  RunRanks(
      static_cast<int>(hosts.size()),
      [&](Group& group) {
        if (group.rank() == 0) line = DescribeExchange(group, exchange, settings);
      },
      {}, OnHosts(hosts));
  return line;
}

TEST(DescribeExchange, SaysWhyItIsFlat) {
  const std::vector<std::string> threes = {"a", "a", "a", "b", "b", "b"};
  EXPECT_EQ(Described(threes, "allreduce"),
            "allreduce: parts straight to their owners, sums to all (flat: hosts have 3 ranks "
            "each, not a power of two: start 2 or 4 on each); by messages");
  EXPECT_EQ(Described({"a", "b", "a", "b"}, "server"),
            "server: all to rank 0, values to all (flat: ranks of one host are not neighbours: use "
            "mpirun --map-by slot or srun -m block); by messages");
  EXPECT_THAT(Described({"a", "a", "b"}, "tree"), HasSubstr("(flat: hosts have 1 to 2 ranks"));
}

TEST(DescribeExchange, SaysNothingOfTheKindWhereItIsNotOrWasAskedFor) {
  EXPECT_EQ(Described({"a", "a", "b", "b"}, "allreduce"),
            "allreduce: sums inside each host of 2 ranks first, then between 2 hosts; by messages");
  EXPECT_THAT(Described({"a", "b", "c"}, "allreduce"), Not(HasSubstr("flat")));
  EXPECT_THAT(Described({"a", "b", "a", "b"}, "allreduce", {.algorithm = "owners"}),
              Not(HasSubstr("flat")));
}

}  // namespace
}  // namespace carafe
