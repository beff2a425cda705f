#include "carafe/train/same_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckSame, LetsEqualFactsPass) {
  RunRanks(3, [](Group& group) {
    CheckSame(group, {{"--solver", "a.prototxt"}, {"--warmup", "5"}}, "do something");
  });
}

TEST(CheckSame, NamesTheFactBothRanksAndBothValuesOnEveryRank) {
  RunRanks(3, [](Group& group) {
    try {
      CheckSame(group,
                {{"--warmup", "5"}, {"--solver", group.rank() == 2 ? "b.prototxt" : "a.prototxt"}},
                "use one solver");
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("--solver differs: a.prototxt on rank 0"),
                        HasSubstr("b.prototxt on rank 2"), HasSubstr("fix: use one solver")));
    }
    EXPECT_TRUE(group.agreed_on_error());
  });
}

TEST(CheckSame, AFactThatOneRankLacksIsADifference) {
  RunRanks(2, [](Group& group) {
    std::vector<NamedFact> facts;
    if (group.rank() == 1) facts.push_back({"--global_batch", "64"});
    try {
      CheckSame(group, facts, "");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--global_batch differs: nothing on rank 0"),
                                      HasSubstr("64 on rank 1")));
    }
  });
}

}  // namespace
}  // namespace carafe
