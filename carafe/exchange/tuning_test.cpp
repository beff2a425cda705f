// Ranks that fail while sums are measured. The memory of the trial ends with the measurement, so
// the transport is given up, and the end of the group must not use it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

// Agrees to measure, and fails before its first gradient.
void FailInTrial(Group& group) {
  std::vector<float> gradient(1024), value(1024);
  std::vector<ParamInfo<float>> params;
  params.push_back(
      {.name = "trial", .count = 1024, .value = value.data(), .gradient = gradient.data()});
  const auto exchange =
      MakeExchange<float>("allreduce", {.group = group,
                                        .params = params,
                                        .update = [](int, Stream&) {},
                                        .bucket_bytes = gradient.size() * sizeof(float)});
  throw DataError("train_lmdb", 7, "broken record", "");
}

TEST(Tuning, ARankThatFailsMeanwhileIsReportedByAllOthers) {
  for (const RankLink& link : {RankLink(), RankLink(ThroughSharedMemory), RankLink(ThroughSockets)})
    for (const int size : {2, 3, 5}) {
      std::vector<std::string> errors(static_cast<size_t>(size));
      RunRanks(
          size,
          [&](Group& group) {
            try {
              if (group.rank() == 1) FailInTrial(group);
              MeasureSumCost(group, "allreduce", {});
            } catch (const Error& error) {
              At(errors, group.rank()) = error.what();
              group.Fail(error.what());
              group.AllKnow();  // asks no transport: it may be gone
            }
          },
          {.farewell = 0.3}, link);
      for (int r = 0; r < size; ++r) {
        if (r == 1) continue;
        // "broken record", or that it ended, by what arrives first.
        EXPECT_THAT(At(errors, r), HasSubstr("rank 1 on "));
      }
    }
}

}  // namespace
}  // namespace carafe
