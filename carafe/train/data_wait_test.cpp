#include "carafe/train/data_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace carafe {
namespace {

TEST(DataWait, CountsWaitsForDataAndNothingElse) {
  DataWait wait;
  wait.Begin("forward", "data");
  wait.Begin("forward", "wait");
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  wait.End();
  EXPECT_EQ(wait.seconds(), 0);
  wait.Begin("data", "wait");
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  wait.End();
  wait.End();
  EXPECT_GE(wait.seconds(), 0.002);
}

}  // namespace
}  // namespace carafe
