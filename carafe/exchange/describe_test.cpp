// The line of the log that says what an exchange does, and whether it begins inside the hosts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/host_of_rank.h"

namespace carafe {
namespace {

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

TEST(DescribeExchange, SaysThatSumsBeginInsideHostsForAnyLayout) {
  const std::vector<std::string> threes = {"a", "a", "a", "b", "b", "b"};
  EXPECT_EQ(Described(threes, "allreduce"),
            "allreduce: sums inside each host of 3 ranks first, then between 2 hosts; by messages");
  EXPECT_EQ(Described({"a", "b", "a", "b"}, "allreduce"),
            "allreduce: sums inside each host of 2 ranks first, then between 2 hosts; by messages");
  EXPECT_EQ(Described({"a", "b", "b", "b"}, "allreduce"),
            "allreduce: sums inside each host of 1 to 3 ranks first, then between 2 hosts; by "
            "messages");
  EXPECT_EQ(Described(threes, "allreduce", {.algorithm = "halving"}),
            "allreduce: sums inside each host of 3 ranks first, then between 2 hosts; by messages");
  EXPECT_EQ(Described({"a", "b", "b"}, "server"),
            "server: the sum of each host to rank 0, values to each host; by messages");
  EXPECT_EQ(Described({"a", "a", "b"}, "tree"),
            "tree: up a binomial tree, down a tree of 2 that enters every host once; by messages");
}

TEST(DescribeExchange, SaysNothingOfHostsWhereThereIsNothingToGainOrItWasNotAskedFor) {
  EXPECT_EQ(Described({"a", "b", "c"}, "allreduce"),
            "allreduce: parts straight to their owners, sums to all; by messages");
  EXPECT_EQ(Described({"a", "a", "a"}, "server"),
            "server: all to rank 0, values to all; by messages");
  EXPECT_EQ(Described({"a", "b", "a", "b"}, "allreduce", {.algorithm = "owners"}),
            "allreduce: parts straight to their owners, sums to all; by messages");
}

}  // namespace
}  // namespace carafe
