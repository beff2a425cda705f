#include "carafe/exchange/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/thread_transport.h"
#include "carafe/comm/transport_decorator.h"

namespace carafe {
namespace {

constexpr ChannelTags kTags{100, 1000};

// Counts what is sent through another transport.
class CountingTransport final : public TransportDecorator {
 public:
  explicit CountingTransport(std::unique_ptr<Transport>&& inner)
      : TransportDecorator(std::move(inner), inner->capabilities()) {}
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    ++sent;
    return inner().Send(to, tag, data, bytes);
  }
  LinkTraits link(int /*peer*/) const override {
    return {.buffers_sends = buffers, .short_message_bytes = short_message};
  }

  int sent = 0;
  size_t short_message = 0;
  bool buffers = false;
};

class Inbox final : public ChannelEvents {
 public:
  PayloadTarget TargetFor(int /*from*/, const Header& header, bool can_view) override {
    if (views_frames && can_view) return {.zero_copy = true};
    arrived.emplace_back(header.bytes, '?');
    return {.memory = arrived.back().data()};
  }
  void OnArrived(int, const Header&, const PayloadView& view) override {
    ++complete;
    if (view) views.push_back(view);
  }
  void OnSent(uint64_t ticket) override { sent.push_back(ticket); }

  std::vector<std::string> arrived;
  size_t complete = 0;
  std::vector<uint64_t> sent;
  bool views_frames = false;  // chooses zero_copy where it can
  std::vector<PayloadView> views;
};

// Two ranks of which the first sends, in one thread.
struct Pair {
  explicit Pair(size_t short_message, size_t longest = 3000, bool buffers = false)
      : hub(MakeThreadHub(2)),
        first(MakeThreadTransport(hub, 0)),
        second(MakeThreadTransport(hub, 1)),
        sender(0, 2, {1}, kTags, longest, longest),
        receiver(1, 2, {0}, kTags, longest, longest) {
    first.short_message = second.short_message = short_message;
    first.buffers = second.buffers = buffers;
  }
  ~Pair() {
    first.Finish();
    second.Finish();
  }
  // The text stays where it is until it has been sent.
  void Send(const std::string& text, uint64_t ticket, int priority = 0) {
    sender.Send(1, {.bytes = static_cast<uint32_t>(text.size())}, text.data(), priority, ticket);
  }
  void PollUntilQuiet() {
    bool moved = true;
    while (moved) {
      moved = sender.Poll(first, outbox);
      moved |= receiver.Poll(second, inbox);
    }
  }

  std::shared_ptr<ThreadHub> hub;
  CountingTransport first, second;
  Channel sender, receiver;
  Inbox outbox, inbox;
};

TEST(Channel, SendsAShortPayloadInsideItsHeaderAndALongOneBehindIt) {
  Pair pair(sizeof(Header) + 1000);
  const std::vector<std::string> texts = {std::string(1, 'a'), std::string(1000, 'b'),
                                          std::string(1001, 'c'), std::string(3000, 'd'), ""};
  for (size_t i = 0; i < texts.size(); ++i) pair.Send(texts[i], i);
  pair.PollUntilQuiet();
  EXPECT_EQ(pair.inbox.arrived, texts);
  EXPECT_EQ(pair.inbox.complete, texts.size());
  EXPECT_EQ(pair.first.sent, 1 + 1 + 2 + 2 + 1);
  EXPECT_EQ(pair.outbox.sent.size(), texts.size());
}

TEST(Channel, KeepsViewedFramesUntilTheyAreReleased) {
  Pair pair(sizeof(Header) + 1000, 1000);
  pair.inbox.views_frames = true;
  std::vector<std::string> texts;
  for (char c : {'a', 'b', 'c'}) texts.emplace_back(1000, c);
  for (size_t i = 0; i < texts.size(); ++i) pair.Send(texts[i], i);
  pair.PollUntilQuiet();
  const auto content = [&](const PayloadView& view) {
    return static_cast<const char*>(pair.receiver.Content(pair.second, view));
  };
  ASSERT_EQ(pair.inbox.views.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(std::string(content(pair.inbox.views[i]), 1000), texts[i]);
  // A released frame is used again, one that is still viewed is not.
  const char* second = content(pair.inbox.views[1]);
  pair.receiver.Release(pair.second, pair.inbox.views[1]);
  const std::string more(1000, 'd');
  for (uint64_t i = 3; i < 5; ++i) {
    pair.Send(more, i);
    pair.PollUntilQuiet();
  }
  ASSERT_EQ(pair.inbox.views.size(), texts.size() + 2);
  EXPECT_EQ(content(pair.inbox.views[4]), second);
  EXPECT_EQ(std::string(content(pair.inbox.views[0]), 1000), texts[0]);
  EXPECT_EQ(std::string(content(pair.inbox.views[2]), 1000), texts[2]);
}

TEST(Channel, SendsTwoMessagesWhereMessagesCostLittle) {
  Pair pair(0);
  const std::string text = "a text of more than a few letters";
  pair.Send(text, 0);
  pair.PollUntilQuiet();
  EXPECT_EQ(pair.inbox.arrived, std::vector<std::string>{text});
  EXPECT_EQ(pair.first.sent, 2);
}

TEST(Channel, SendsUrgentMessagesBeforeThoseThatHaveNotLeftYet) {
  Pair pair(sizeof(Header) + 1000, 1000, true);
  const std::string bulk(1000, 'b');
  const std::string urgent = "now";
  constexpr size_t kBulk = 10;
  for (size_t i = 0; i < kBulk; ++i) pair.Send(bulk, i, 1);
  for (int i = 0; i < 5; ++i) pair.sender.Poll(pair.first, pair.outbox);
  EXPECT_EQ(pair.first.sent, Channel::kWindow) << "nothing was acknowledged";
  pair.Send(urgent, kBulk, 0);
  pair.PollUntilQuiet();
  ASSERT_EQ(pair.inbox.arrived.size(), kBulk + 1);
  EXPECT_EQ(pair.inbox.arrived[Channel::kWindow], urgent);
  EXPECT_EQ(pair.outbox.sent.size(), kBulk + 1);
  EXPECT_FALSE(pair.receiver.OwesAck());
}

TEST(Channel, AcknowledgesNothingWhileLittleIsInFlight) {
  Pair pair(sizeof(Header) + 1000, 1000, true);
  const std::string text(1000, 'b');
  pair.Send(text, 0);
  pair.PollUntilQuiet();
  EXPECT_EQ(pair.inbox.complete, 1u);
  EXPECT_EQ(pair.second.sent, 0);
}

TEST(Channel, AcknowledgesInTheMessagesThatItSends) {
  Pair pair(sizeof(Header) + 1000, 1000, true);
  const std::string text(1000, 'b');
  for (uint64_t i = 0; i < 3; ++i) {
    pair.Send(text, i);
    pair.receiver.Send(0, {.bytes = 1000}, text.data(), 0, i);
  }
  pair.sender.Poll(pair.first, pair.outbox);
  pair.receiver.Poll(pair.second, pair.inbox);  // takes three, sends three, which acknowledge them
  pair.PollUntilQuiet();
  EXPECT_EQ(pair.inbox.complete, 3u);
  EXPECT_EQ(pair.outbox.complete, 3u);
  EXPECT_EQ(pair.second.sent, 3);
}

TEST(Channel, ClosesWithAcknowledgementsOwed) {
  Pair pair(sizeof(Header) + 1000, 1000, true);
  const std::string text(1000, 'b');
  for (uint64_t i = 0; i < 3; ++i) pair.Send(text, i);
  pair.sender.Poll(pair.first, pair.outbox);
  pair.sender.Close();
  pair.receiver.Close();
  pair.PollUntilQuiet();
  EXPECT_EQ(pair.inbox.complete, 3u);
  EXPECT_TRUE(pair.sender.Idle());
  EXPECT_TRUE(pair.receiver.Idle());
}

TEST(Channel, RefusesAFrameWhoseLengthIsNotThatOfItsHeader) {
  Pair pair(sizeof(Header) + 1000);
  std::vector<char> frame(sizeof(Header) + 7);
  const Header header{.bytes = 8, .payload_inside = 1};
  std::memcpy(frame.data(), &header, sizeof header);
  pair.first.Send(1, kTags.header, frame.data(), frame.size());
  EXPECT_THROW(pair.PollUntilQuiet(), CommError);
}

TEST(Channel, RefusesAFrameShorterThanAHeader) {
  Pair pair(sizeof(Header) + 1000);
  pair.first.Send(1, kTags.header, "?", 1);
  EXPECT_THROW(pair.PollUntilQuiet(), CommError);
}

}  // namespace
}  // namespace carafe
