#include "carafe/base/suggest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NearestNames, FindsOneInsertedMissingWrongOrSwappedLetter) {
  const std::vector<std::string> names = {"Convolution", "Pooling", "Dropout"};
  EXPECT_THAT(NearestNames("Poolling", names), ElementsAre("Pooling"));
  EXPECT_THAT(NearestNames("Poling", names), ElementsAre("Pooling"));
  EXPECT_THAT(NearestNames("Pooming", names), ElementsAre("Pooling"));
  EXPECT_THAT(NearestNames("Poolign", names), ElementsAre("Pooling"));
}

TEST(NearestNames, IgnoresCase) {
  EXPECT_THAT(NearestNames("SOFTMAX", {"Softmax", "Split"}), ElementsAre("Softmax"));
}

TEST(NearestNames, PutsTheNearestFirstAndStopsAtTheMostAskedFor) {
  const std::vector<std::string> names = {"abcdxx", "abcdef", "abcdeg", "abcdeh"};
  EXPECT_THAT(NearestNames("abcdeg", names), ElementsAre("abcdeg", "abcdef", "abcdeh"));
  EXPECT_THAT(NearestNames("abcdeg", names, 1), ElementsAre("abcdeg"));
}

TEST(NearestNames, AllowsAThirdOfTheWordToBeWrongAtMostTwoLetters) {
  EXPECT_THAT(NearestNames("abcdef", {"abcdxx"}), ElementsAre("abcdxx"));
  EXPECT_THAT(NearestNames("abcdef", {"abcxxx"}), IsEmpty());
  EXPECT_THAT(NearestNames("abc", {"abx"}), ElementsAre("abx"));
  EXPECT_THAT(NearestNames("", {"ab"}), IsEmpty());
}

TEST(NearestNames, AreNotOtherWords) {
  EXPECT_THAT(NearestNames("roi_pooling_param", {"pooling_param"}), IsEmpty());
  EXPECT_THAT(NearestNames("proposal_param", {"dropout_param"}), IsEmpty());
  EXPECT_THAT(NearestNames("IMAGE_SEG_DATA", {"IMAGE_DATA"}), IsEmpty());
  EXPECT_THAT(NearestNames("Flip", {"Clip"}), IsEmpty());
  EXPECT_THAT(NearestNames("cnov", {"conv"}), ElementsAre("conv"));
  EXPECT_THAT(NearestNames("ocnv", {"conv"}), ElementsAre("conv"));
}

TEST(DidYouMean, NamesTheNearestOrAll) {
  EXPECT_EQ(DidYouMean("Relu", {"ReLU", "ELU"}), "did you mean \"ReLU\" or \"ELU\"?");
  EXPECT_EQ(DidYouMean("Convolve", {"ReLU", "ELU"}), "use one of: ReLU, ELU");
}

}  // namespace
}  // namespace carafe
