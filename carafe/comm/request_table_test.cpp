#include "carafe/comm/request_table.h"

#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using Table = RequestTable<int>;

TEST(RequestTable, KeepsTheStateOfEachRequestUntilItIsForgotten) {
  Table table;
  const auto first = table.Begin(5);
  const auto second = table.Begin(6);
  EXPECT_NE(first, second);
  EXPECT_NE(first, 0u);
  table[second] = 7;
  EXPECT_EQ(table[first], 5);
  EXPECT_EQ(table[second], 7);
}

TEST(RequestTable, ReusesTheNumbersOfDoneRequests) {
  Table table;
  const auto first = table.Begin(5);
  EXPECT_FALSE(table.TakeDone(first));
  table.Complete(first);
  EXPECT_TRUE(table.Done(first));
  EXPECT_TRUE(table.TakeDone(first));
  EXPECT_EQ(table.Begin(6), first);
  EXPECT_FALSE(table.Done(first)) << "it is a new request";
}

TEST(RequestTable, RefusesARequestThatWasForgotten) {
  Table table;
  const auto request = table.Begin(5);
  table.Complete(request);
  EXPECT_TRUE(table.TakeDone(request));
  EXPECT_THROW(table.Done(request), InternalError);
  EXPECT_THROW(table.Done(request + 1), InternalError);
}

TEST(RequestTable, AFailedRequestThrowsItsError) {
  Table table;
  const auto request = table.Begin(5);
  table.Fail(request, "no such rank");
  EXPECT_NE(ErrorText<CommError>([&] { table.Done(request); }).find("no such rank"),
            std::string::npos);
  table.Forget(request);
  EXPECT_EQ(table.Begin(6), request);
  EXPECT_FALSE(table.Done(request)) << "the error belonged to the old request";
}

TEST(RequestTable, ReportsCompletionsOnce) {
  Table table;
  const auto first = table.Begin(5);
  const auto second = table.Begin(5);
  EXPECT_FALSE(table.TakeCompletions());
  table.Complete(first);
  EXPECT_TRUE(table.TakeCompletions());
  EXPECT_FALSE(table.TakeCompletions());
  table.Fail(second, "lost");
  EXPECT_TRUE(table.TakeCompletions());
}

TEST(RequestTable, RecognisesItsOwnRequestsByTheirMark) {
  Table inner;
  Table outer(uint64_t{1} << 62);
  EXPECT_TRUE(outer.Owns(outer.Begin(1)));
  EXPECT_FALSE(outer.Owns(inner.Begin(1)));
}

}  // namespace
}  // namespace carafe
