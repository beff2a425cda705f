// The law '1 against P' on ranks of several hosts: sums inside hosts first change the last bits
// only.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/train/trainer.h"
#include "tests/support/host_of_rank.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

class HostsLawTest : public SmallTraining {};

TEST_F(HostsLawTest, RanksOnAnyHostsReachTheWeightsOfOneWorker) {
  const std::string settings =
      "momentum: 0.9 weight_decay: 0.01 clip_gradients: 0.5 iter_size: 2 test_initialization: "
      "false snapshot_after_train: false";
  const std::vector<std::vector<std::string>> layouts = {{"a", "a", "a", "b", "b", "b"},
                                                         {"a", "a", "a", "b", "b"},
                                                         {"a", "b", "b", "b", "b"},
                                                         {"a", "b", "a", "b"}};
  for (const std::vector<std::string>& hosts : layouts) {
    const int ranks = static_cast<int>(hosts.size());
    TrainOptions options = Quiet();
    options.bucket_mb = 1e-3;
    const Weights<double> one = Train<double>(1, Spec(3 * ranks, settings), options);
    Weights<double> first;
    for (const char* exchange : {"allreduce", "server", "ssp", "tree"}) {
      options.exchange = exchange;
      const Weights<double> many = Train<double>(ranks, Spec(3, settings), options, OnHosts(hosts));
      const std::string what = fmt::format("{} on {}", exchange, fmt::join(hosts, " "));
      EXPECT_LE(Difference(one, many), 1e-10) << what;
      if (first.empty()) first = many;
      EXPECT_EQ(many, first) << what;
    }
  }
}

}  // namespace
}  // namespace carafe
