#include "carafe/comm/shm_transport.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/shm_ring.h"
#include "carafe/comm/thread_transport.h"
#include "carafe/core/shareable_memory.h"
#include "tests/support/handshake_only.h"
#include "tests/support/transport_messages.h"

namespace carafe {
namespace {

void RunShm(int n, const std::function<void(Transport&)>& rank_main) {
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const std::unique_ptr<Transport> transport = WithSharedMemory(
          std::make_unique<HandshakeOnly>(MakeThreadTransport(hub, r)), {.identity = "here"});
      rank_main(*transport);
      transport->Finish();
    });
  for (std::thread& thread : threads) thread.join();
}

ZeroCopy& Views(const Transport& transport) { return *transport.capabilities().zero_copy; }

TEST(ShmTransport, DeliversMessagesOfAnySizeInOrderPerTag) {
  for (int size : {2, 3, 7}) RunShm(size, SendMessagesOfAnySize);
}
TEST(ShmTransport, SurvivesManyMessagesOfManyTagsInRandomOrder) { RunShm(3, SendInRandomOrder); }

TEST(ShmTransport, GivesViewsInsteadOfCopies) {
  RunShm(2, [](Transport& t) {
    const size_t bytes = 40000 * sizeof(int);
    for (int round = 0; round < 50; ++round) {
      const std::vector<int> mine = Content(40000, round + t.rank());
      const int other = 1 - t.rank();
      ASSERT_TRUE(Views(t).CanView(other, bytes));
      Await(t, t.Send(other, 9, mine.data(), bytes));
      const Transport::Request view = Views(t).ReceiveView(other, 9, bytes);
      Await(t, view);
      const int* content = static_cast<const int*>(Views(t).view(view));
      EXPECT_EQ(std::vector<int>(content, content + 40000), Content(40000, round + other));
      Views(t).ReleaseView(view);
    }
  });
}

TEST(ShmTransport, OpenViewsDoNotBlockOtherMessages) {
  RunShm(2, [](Transport& t) {
    constexpr size_t kCount = 60000;
    const int other = 1 - t.rank();
    const std::vector<int> mine = Content(kCount, 5);
    std::vector<Transport::Request> sends, views, receives;
    std::vector<std::vector<int>> in;
    for (int i = 0; i < 12; ++i) sends.push_back(t.Send(other, 20 + i, mine.data(), kCount * 4));
    for (int i = 0; i < 12; ++i) {
      if (Views(t).CanView(other, kCount * 4)) {
        views.push_back(Views(t).ReceiveView(other, 20 + i, kCount * 4));
        Await(t, views.back());
      } else {
        in.emplace_back(kCount);
        receives.push_back(t.Receive(other, 20 + i, in.back().data(), kCount * 4));
      }
    }
    EXPECT_FALSE(views.empty());
    EXPECT_FALSE(receives.empty());
    while (!receives.empty() || !sends.empty()) {
      std::erase_if(receives, [&](auto r) { return t.Done(r); });
      std::erase_if(sends, [&](auto r) { return t.Done(r); });
    }
    for (auto view : views) {
      const int* content = static_cast<const int*>(Views(t).view(view));
      EXPECT_EQ(std::vector<int>(content, content + kCount), mine);
      Views(t).ReleaseView(view);
    }
    for (const auto& got : in) EXPECT_EQ(got, mine);
  });
}

// Ints in memory that neighbours can map.
class Shareable {
 public:
  explicit Shareable(const std::vector<int>& content)
      : memory_(static_cast<int*>(AllocateShareable(content.size() * sizeof(int)))) {
    std::copy(content.begin(), content.end(), memory_);
  }
  ~Shareable() { FreeShareable(memory_); }
  Shareable(const Shareable&) = delete;
  Shareable& operator=(const Shareable&) = delete;
  int* data() const { return memory_; }

 private:
  int* const memory_;
};

TEST(ShmTransport, SendsShareableMemoryAsAView) {
  std::barrier both(2);
  RunShm(2, [&](Transport& t) {
    constexpr size_t kCount = 200000;  // longer than a slot
    ASSERT_TRUE(t.capabilities().shares_memory);
    const int other = 1 - t.rank();
    for (int round = 0; round < 20; ++round) {
      const Shareable mine(Content(kCount, round + t.rank()));  // other memory in every round
      const Transport::Request send = t.Send(other, 9, mine.data(), kCount * sizeof(int));
      EXPECT_FALSE(t.Done(send));  // not before the other one has read it,
      both.arrive_and_wait();      // which it does only after both have checked that
      std::vector<int> in(kCount);
      if (round % 2 == 0) {
        Await(t, t.Receive(other, 9, in.data(), kCount * sizeof(int)));
      } else {
        ASSERT_TRUE(Views(t).CanView(other, kCount * sizeof(int)));
        const Transport::Request view = Views(t).ReceiveView(other, 9, kCount * sizeof(int));
        Await(t, view);
        const int* content = static_cast<const int*>(Views(t).view(view));
        in.assign(content, content + kCount);
        Views(t).ReleaseView(view);
      }
      EXPECT_EQ(in, Content(kCount, round + other));
      Await(t, send);
    }
  });
}

TEST(ShmTransport, CopiesIfThereAreMoreViewsThanSlots) {
  RunShm(2, [](Transport& t) {
    constexpr size_t kCount = 9000;
    const int other = 1 - t.rank();
    const Shareable mine(Content(kCount, t.rank()));
    std::vector<Transport::Request> open;
    std::vector<std::vector<int>> in(3 * kRingViews, std::vector<int>(kCount));
    for (size_t i = 0; i < in.size(); ++i)
      open.push_back(t.Send(other, 20 + static_cast<int>(i % 3), mine.data(), kCount * 4));
    for (size_t i = 0; i < in.size(); ++i)
      open.push_back(t.Receive(other, 20 + static_cast<int>(i % 3), in[i].data(), kCount * 4));
    while (!open.empty()) std::erase_if(open, [&](auto request) { return t.Done(request); });
    for (const std::vector<int>& got : in) EXPECT_EQ(got, Content(kCount, other));
  });
}

TEST(ShmTransport, AViewMayComeInParts) {
  RunShm(2, [](Transport& t) {
    constexpr size_t kCount = 300000;  // five slots
    const int other = 1 - t.rank();
    const Shareable first(Content(9000, 1));
    const std::vector<int> second = Content(kCount, t.rank());
    std::vector<int> in(9000);
    const Transport::Request first_send = t.Send(other, 9, first.data(), 9000 * 4);
    Await(t, t.Receive(other, 9, in.data(), 9000 * 4));
    ASSERT_TRUE(Views(t).CanView(other, kCount * 4));  // since its last long message was a view
    const Transport::Request send = t.Send(other, 9, second.data(), kCount * 4);
    const Transport::Request view = Views(t).ReceiveView(other, 9, kCount * 4);
    std::vector<Transport::Request> open = {first_send, send, view};
    while (!open.empty()) std::erase_if(open, [&](auto request) { return t.Done(request); });
    const int* content = static_cast<const int*>(Views(t).view(view));
    EXPECT_EQ(std::vector<int>(content, content + kCount), Content(kCount, other));
    Views(t).ReleaseView(view);
  });
}

TEST(ShmTransport, RefusesAMessageOfAnotherSize) {
  RunShm(2, [](Transport& t) {
    int content[2] = {};
    if (t.rank() == 0) {
      Await(t, t.Send(1, 7, content, sizeof content));
    } else {
      EXPECT_THROW(Await(t, t.Receive(0, 7, content, sizeof(int))), CommError);
    }
  });
}

// Messages through the inner transport throw its error.
void ExpectNotShared(const std::function<ShmOptions(int rank)>& options) {
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto transport = WithSharedMemory(
          std::make_unique<HandshakeOnly>(MakeThreadTransport(hub, r)), options(r));
      int content = 0;
      EXPECT_THROW(transport->Send(1 - r, 7, &content, sizeof content), std::runtime_error);
      EXPECT_FALSE(transport->capabilities().zero_copy);
      transport->Finish();
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(ShmTransport, LeavesRanksOfOtherHostsToTheInnerTransport) {
  ExpectNotShared([](int rank) { return ShmOptions{.identity = rank == 0 ? "h1" : "h2"}; });
  ExpectNotShared([](int) { return ShmOptions{.identity = ""}; });
}

TEST(ShmTransport, FallsBackWhereOneRankGetsNoMemory) {
  ExpectNotShared([](int rank) {
    ShmOptions options{.identity = "here"};
    if (rank == 1)
      options.make = [](size_t) -> ShmSegment { throw CommError("no memory today", ""); };
    return options;
  });
}

TEST(ShmTransport, IdentifiesThisHost) {
  EXPECT_FALSE(HostIdentity().empty());
  EXPECT_EQ(HostIdentity(), HostIdentity());
}

TEST(ShmTransport, AProcessThatEndsIsNoticed) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    close(pipe_ends[1]);
    (void)!read(pipe_ends[0], &c, 1);
    _exit(0);
  }
  close(pipe_ends[0]);
  const ProcessWatch watch(child);
  EXPECT_FALSE(watch.ended());
  close(pipe_ends[1]);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(watch.ended());
}

}  // namespace
}  // namespace carafe
