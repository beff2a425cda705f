#include "carafe/comm/mailbox.h"

#include <gtest/gtest.h>

namespace carafe {
namespace {

struct Text {
  int tag = 0;
  std::string content;
};

TEST(Mailbox, MatchesByTagOldestFirst) {
  Mailbox<Text> mailbox;
  mailbox.AddMessage({5, "a"});
  mailbox.AddMessage({6, "b"});
  mailbox.AddMessage({5, "c"});
  EXPECT_EQ(mailbox.TakeMessage(6)->content, "b");
  EXPECT_EQ(mailbox.FindMessage(5)->content, "a");
  EXPECT_EQ(mailbox.TakeMessage(5)->content, "a");
  EXPECT_EQ(mailbox.TakeMessage(5)->content, "c");
  EXPECT_FALSE(mailbox.TakeMessage(5));
}

TEST(Mailbox, KeepsReceivesInOrderOfTheirTag) {
  Mailbox<Text> mailbox;
  for (uint64_t request : {1, 2, 3})
    mailbox.AddReceive({.request = request, .tag = request == 2 ? 6 : 5});
  EXPECT_EQ(mailbox.FindReceive(5)->request, 1u);
  EXPECT_EQ(mailbox.TakeReceive(5)->request, 1u);
  EXPECT_EQ(mailbox.TakeReceive(5)->request, 3u);
  EXPECT_EQ(mailbox.TakeReceive(6)->request, 2u);
  EXPECT_EQ(mailbox.FindReceive(6), nullptr);
}

TEST(Mailbox, AReceiveAcceptsExactlyItsSizeOrUpToIt) {
  size_t received = 0;
  const PendingReceive exact{.bytes = 8};
  const PendingReceive any{.bytes = 8, .received = &received};
  EXPECT_TRUE(exact.Accepts(8));
  EXPECT_FALSE(exact.Accepts(7));
  EXPECT_TRUE(any.Accepts(0));
  EXPECT_TRUE(any.Accepts(8));
  EXPECT_FALSE(any.Accepts(9));
}

TEST(Mailbox, TheErrorOfAWrongSizeNamesRanksTagAndSizes) {
  EXPECT_EQ(SizeMismatch(1, 2, 7, 40, 48),
            "a message of rank 1 to rank 2 (tag 7) has 40 bytes, not 48");
}

}  // namespace
}  // namespace carafe
