#include "carafe/train/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of each rank of a host.
std::vector<std::optional<int>> Choices(const std::string& gpu, bool file_wants_gpu, int visible,
                                        int ranks) {
  std::vector<std::optional<int>> ids;
  for (int r = 0; r < ranks; ++r) ids.push_back(ChooseGpu(gpu, file_wants_gpu, visible, r, ranks));
  return ids;
}

TEST(ChooseGpu, GivesTheRanksOfAHostItsGpusInTurn) {
  for (const char* gpu : {"auto", "all"}) {
    EXPECT_THAT(Choices(gpu, false, 4, 4), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(Choices(gpu, false, 2, 5), ElementsAre(0, 1, 0, 1, 0));
    EXPECT_THAT(Choices(gpu, false, 8, 2), ElementsAre(0, 1));
  }
  EXPECT_THAT(Choices("", true, 2, 3), ElementsAre(0, 1, 0));
}

TEST(ChooseGpu, IsTheCpuUnlessFlagOrFileAskForMore) {
  EXPECT_THAT(Choices("", false, 4, 2), ElementsAre(std::nullopt, std::nullopt));
  EXPECT_THAT(Choices("", true, 0, 2), ElementsAre(std::nullopt, std::nullopt));
}

TEST(ChooseGpu, TakesTheNumbersThatAreGiven) {
  EXPECT_THAT(Choices("3", false, 4, 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(Choices("2,0", false, 4, 4), ElementsAre(2, 0, 2, 0));
  EXPECT_THAT(Choices("1,3", false, 4, 2), ElementsAre(1, 3));
}

TEST(ChooseGpu, NeverFallsBackToTheCpuWhereAFlagAsksForAGpu) {
  for (const char* gpu : {"auto", "all", "0"})
    EXPECT_THAT(Choices(gpu, false, 0, 2), ElementsAre(0, 0)) << gpu;
}

TEST(ChooseGpu, ExplainsMistakes) {
  EXPECT_THAT(ErrorText<ConfigError>([] { ChooseGpu("0,1,2", false, 4, 0, 2); }),
              AllOf(HasSubstr("--gpu=0,1,2 names 3 GPUs for 2 rank(s)"), HasSubstr("mpirun -n 3")));
  for (const char* gpu : {"one", "-1", "0,", "0,x"})
    EXPECT_THAT(ErrorText<ConfigError>([&] { ChooseGpu(gpu, false, 4, 0, 4); }),
                AllOf(HasSubstr("--gpu is \""), HasSubstr("give a number")))
        << gpu;
}

TEST(MakeStream, WithoutAGpuAFlagIsAnErrorAndAFileAWarningOfOneRank) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "there is a GPU";
  RunRanks(3, [](Group& group) {
    for (const char* gpu : {"auto", "all", "0"})
      EXPECT_THAT(ErrorText<ConfigError>([&] { MakeStream(gpu, false, 1, group); }),
                  AllOf(HasSubstr("GPU"), HasSubstr("fix: ")));
    EXPECT_EQ(MakeStream("", true, 1, group)->device().name(), "CPU");
  });
}

}  // namespace
}  // namespace carafe
