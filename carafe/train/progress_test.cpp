#include "carafe/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carafe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const ProgressState kState = {.phase = "train",
                              .done = 340,
                              .total = 1000,
                              .start = 0,
                              .loss = 0.123456,
                              .rate = 0.0095,
                              .images_per_second = 1234,
                              .data_wait = 0.01,
                              .comm_wait = 0.05};

TEST(Progress, ShowsAllOfItWhereThereIsRoom) {
  EXPECT_EQ(Progress::Text(kState, 340, 200),
            "train  340/1000  34%  loss 0.1235  lr 0.0095  1234 img/s  left 11:00  "
            "waiting: data 1%, ranks 5%");
}

TEST(Progress, FitsAnyWidthAndLeavesOutWhatMattersLeast) {
  for (int columns = 0; columns < 120; ++columns) {
    const std::string text = Progress::Text(kState, 340, columns);
    EXPECT_LE(text.size(), static_cast<size_t>(columns));
    if (columns >= 15) {
      EXPECT_THAT(text, StartsWith("train  340/1000"));
    }
    if (columns >= 28) {
      EXPECT_THAT(text, HasSubstr("loss 0.1235"));
    }
  }
  EXPECT_THAT(Progress::Text(kState, 340, 79), EndsWith("left 11:00"));
  EXPECT_EQ(Progress::Text(kState, 340, 60),
            "train  340/1000  34%  loss 0.1235  1234 img/s  left 11:00");
}

TEST(Progress, ShowsNoLossBeforeTheFirstStep) {
  ProgressState first_test = kState;
  first_test.phase = "test";
  first_test.loss.reset();
  EXPECT_THAT(Progress::Text(first_test, 1, 200), Not(HasSubstr("loss")));
  EXPECT_THAT(Progress::Text(first_test, 1, 200), Not(HasSubstr("lr")));
}

}  // namespace
}  // namespace carafe
