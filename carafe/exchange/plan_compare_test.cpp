// What the ranks compare before the first step: a rank that was given other settings is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/param_arena.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3, kOdd = 1;  // the rank with other settings

struct Given {
  std::string exchange = "server";
  int workers = 1;
  bool overlap = true;
  SchemeSettings scheme = {};
};

// The errors of all ranks if one has other settings, "" where there is none.
std::vector<std::string> ErrorsIf(const std::function<void(Given&)>& change) {
  std::vector<std::string> errors(kRanks);
  RunRanks(kRanks, [&](Group& group) {
    Given given;
    if (group.rank() == kOdd) change(given);
    std::vector<Arena<float>> arenas;
    for (int w = 0; w < given.workers; ++w) arenas.emplace_back(std::vector<int64_t>{10, 20});
    Arena<float> values({10, 20});
    std::vector<ParamInfo<float>> params = arenas[0].params;
    for (size_t p = 0; p < params.size(); ++p) {
      params[p].value = values.params[p].gradient;
      for (int w = 1; w < given.workers; ++w)
        params[p].other_gradients.push_back(arenas[static_cast<size_t>(w)].params[p].gradient);
    }
    try {
      const auto exchange = MakeExchange<float>(given.exchange, {.group = group,
                                                                 .params = params,
                                                                 .update = [](int, Stream&) {},
                                                                 .workers = given.workers,
                                                                 .overlap = given.overlap,
                                                                 .scheme = given.scheme});
      Stream stream;
      for (int p : {1, 0})
        for (int w = 0; w < given.workers; ++w) exchange->GradientReady(w, p, stream);
      exchange->Vote({});
      exchange->FinishStep();
      exchange->AwaitVerdict();
      exchange->Drain(0, stream);
    } catch (const ConfigError& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return errors;
}

void ExpectNamed(const std::function<void(Given&)>& change, const std::string& theirs,
                 const std::string& of_rank_0) {
  for (const std::string& error : ErrorsIf(change))
    EXPECT_THAT(error, AllOf(HasSubstr("rank 1 on thread1"),
                             HasSubstr('"' + theirs + "\" against \"" + of_rank_0 + "\" of rank 0"),
                             HasSubstr("same settings")));
}

TEST(ComparePlans, AnotherExchangeIsNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.exchange = "tree"; }, "exchange tree", "exchange server");
}

TEST(ComparePlans, AnotherAlgorithmOfTheSumIsNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.scheme.algorithm = "halving"; }, "sum halving", "sum auto");
}

TEST(ComparePlans, OtherMessagesAreNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.scheme.message_bytes = 4096; }, "messages of 4096 bytes",
              "messages as measured");
}

TEST(ComparePlans, AnotherNumberOfBranchesIsNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.scheme.branches = 3; }, "tree_branches 3",
              "tree_branches 2");
}

TEST(ComparePlans, AnotherTimeoutIsNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.scheme.timeout = 2.5; }, "exchange_timeout 2.5 s",
              "exchange_timeout none");
}

// Would be refused by itself, on one rank only.
TEST(ComparePlans, ATimeoutForAnExchangeThatHasNoneIsNamedOnEveryRankAsWell) {
  ExpectNamed(
      [](Given& given) {
        given.exchange = "allreduce";
        given.scheme.timeout = 2.5;
      },
      "exchange allreduce", "exchange server");
}

TEST(ComparePlans, AnotherNumberOfWorkersIsNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.workers = 2; }, "workers 2", "workers 1");
}

TEST(ComparePlans, OtherRanksOfAHostAreNamedOnEveryRank) {
  ExpectNamed([](Given& given) { given.scheme.hosts = HostLayout::Even(3, 2); },
              "hosts of the ranks 0 0 1", "hosts of the ranks flat");
}

TEST(ComparePlans, WhenMessagesLeaveMayDiffer) {
  for (const std::string& error : ErrorsIf([](Given& given) { given.overlap = false; }))
    EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace carafe
