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
  for (int r = 0; r < ranks; ++r)
    ids.push_back(ChooseGpu(gpu, file_wants_gpu, {.visible = visible, .rank = r, .size = ranks}));
  return ids;
}

// The same for ranks with a worker on each of several GPUs.
std::vector<std::vector<int>> Shares(const std::string& gpu, int visible, int ranks) {
  std::vector<std::vector<int>> ids;
  for (int r = 0; r < ranks; ++r)
    ids.push_back(ChooseGpus(gpu, false, {.visible = visible, .rank = r, .size = ranks}));
  return ids;
}

TEST(ChooseGpus, DividesAListAmongTheRanksOfAHost) {
  EXPECT_THAT(Shares("0,1,2,3", 8, 1), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(Shares("5,1,2,3", 8, 2), ElementsAre(ElementsAre(5, 1), ElementsAre(2, 3)));
  EXPECT_THAT(Shares("0,1", 8, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(Shares("2", 8, 2), ElementsAre(ElementsAre(2), ElementsAre(2)));
  EXPECT_THAT(Shares("all", 4, 1), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(Shares("all", 4, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(Shares("all", 1, 2), ElementsAre(ElementsAre(0), ElementsAre(0)));
  EXPECT_THAT(Shares("auto", 4, 2), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(Shares("", 4, 2), ElementsAre(ElementsAre(), ElementsAre()));
}

TEST(ChooseGpus, CountsModuloAsCaffeGpiDoes) {
  EXPECT_THAT(Shares("auto-2", 8, 3), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
  EXPECT_EQ(Shares("auto-4", 8, 6).back(), std::vector<int>{1});
}

TEST(ChooseGpus, ExplainsMistakes) {
  EXPECT_THAT(ErrorText<ConfigError>([] { Shares("0,1,2", 4, 2); }),
              AllOf(HasSubstr("--gpu=0,1,2 names 3 GPUs for 2 ranks"), HasSubstr("--gpu=auto")));
  EXPECT_THAT(ErrorText<ConfigError>([] { Shares("all", 8, 3); }),
              HasSubstr("--gpu=all names 8 GPUs for 3 ranks"));
  EXPECT_THAT(ErrorText<ConfigError>([] { Shares("0,0", 8, 1); }),
              HasSubstr("--gpu=0,0 names a GPU twice for one rank"));
  for (const char* gpu : {"auto-", "auto-0", "auto-x"})
    EXPECT_THAT(ErrorText<ConfigError>([&] { Shares(gpu, 8, 1); }),
                AllOf(HasSubstr("--gpu=auto-N is "), HasSubstr("fix: use 1 or more")))
        << gpu;
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
  EXPECT_THAT(
      ErrorText<ConfigError>([] { Choices("0,1,2,3", false, 4, 2); }),
      AllOf(HasSubstr("--gpu=0,1,2,3 names 4 GPUs for 2 rank(s)"), HasSubstr("mpirun -n 4")));
  for (const char* gpu : {"one", "-1", "0,", "0,x"})
    EXPECT_THAT(ErrorText<ConfigError>([&] { Choices(gpu, false, 4, 4); }),
                AllOf(HasSubstr("--gpu is "), HasSubstr("fix: use 0 or more")))
        << gpu;
}

TEST(MakeStream, WithoutAGpuAFlagIsAnErrorAndAFileAWarningOfOneRank) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "there is a GPU";
  RunRanks(3, [](Group& group) {
    for (const char* gpu : {"auto", "all", "0"})
      EXPECT_THAT(ErrorText<ConfigError>([&] { MakeStream(gpu, false, 1, group); }),
                  AllOf(HasSubstr("GPU"), HasSubstr("fix: ")));
    EXPECT_EQ(MakeStream("", true, 1, group)->device().name(), "CPU");
    EXPECT_EQ(MakeWorkerStreams("", true, 3, 1, group).workers, 3);
    EXPECT_THAT(ErrorText<ConfigError>([&] { MakeWorkerStreams("0", false, 1, 1, group); }),
                HasSubstr("GPU"));
  });
}

}  // namespace
}  // namespace carafe
