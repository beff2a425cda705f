#include "carafe/comm/thread_transport.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"

namespace carafe {
namespace {

void Await(Transport& transport, Transport::Request request) {
  while (!transport.Done(request)) std::this_thread::yield();
}

TEST(ThreadTransport, DeliversMessagesOfAnySizeInOrderPerTag) {
  for (int size : {1, 2, 3, 7}) {
    RunTransports(size, [](Transport& t) {
      const int next = (t.rank() + 1) % t.size();
      const int last = (t.rank() + t.size() - 1) % t.size();
      std::vector<Transport::Request> requests;
      std::vector<std::vector<int>> out;
      std::vector<std::vector<int>> in;
      for (size_t length : {0, 1, 1023, 5000, 3, 300000}) {
        out.emplace_back(length);
        std::iota(out.back().begin(), out.back().end(), t.rank() * 100);
        in.emplace_back(length, -1);
      }
      for (size_t i = 0; i < out.size(); ++i)
        requests.push_back(t.Send(next, 5, out[i].data(), out[i].size() * sizeof(int)));
      for (size_t i = 0; i < in.size(); ++i)
        requests.push_back(t.Receive(last, 5, in[i].data(), in[i].size() * sizeof(int)));
      for (Transport::Request r : requests) Await(t, r);
      for (const std::vector<int>& got : in)
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], last * 100 + static_cast<int>(i));
    });
  }
}

TEST(ThreadTransport, ReceivesShortMessagesOfAnySizeAndReportsIt) {
  RunTransports(2, [](Transport& t) {
    const size_t most = t.link(1 - t.rank()).short_message_bytes;
    ASSERT_GT(most, 100u);
    const std::string word = "as long as it is";
    const std::string longest(most, 'x');
    const std::vector<Transport::Request> sends = {
        t.Send(1 - t.rank(), 4, word.data(), word.size()), t.Send(1 - t.rank(), 4, nullptr, 0),
        t.Send(1 - t.rank(), 4, longest.data(), longest.size())};
    for (const std::string& expected : {word, std::string(), longest}) {
      std::string received(most, '?');
      size_t bytes = 77;
      Await(t, t.capabilities().short_messages->ReceiveUpTo(1 - t.rank(), 4, received.data(), most,
                                                            &bytes));
      received.resize(bytes);
      EXPECT_EQ(received, expected);
    }
    for (Transport::Request send : sends) Await(t, send);
  });
}

TEST(ThreadTransport, RefusesAShortMessageThatIsTooLong) {
  RunTransports(2, [](Transport& t) {
    const char word[8] = "1234567";
    char received[4];
    size_t bytes = 0;
    if (t.rank() == 0) Await(t, t.Send(1, 4, word, sizeof word));
    if (t.rank() == 1) {
      EXPECT_THROW(Await(t, t.capabilities().short_messages->ReceiveUpTo(0, 4, received,
                                                                         sizeof received, &bytes)),
                   CommError);
    }
  });
}

TEST(ThreadTransport, KeepsTagsApart) {
  RunTransports(2, [](Transport& t) {
    int out[2] = {10, 20};
    int in[2] = {};
    if (t.rank() == 0) {
      Await(t, t.Send(1, 7, &out[0], sizeof(int)));
      Await(t, t.Send(1, 8, &out[1], sizeof(int)));
    } else {
      Await(t, t.Receive(0, 8, &in[1], sizeof(int)));
      Await(t, t.Receive(0, 7, &in[0], sizeof(int)));
      EXPECT_EQ(in[0], 10);
      EXPECT_EQ(in[1], 20);
    }
  });
}

TEST(ThreadTransport, RefusesAMessageOfAnotherSize) {
  for (size_t bytes : {3, 5, 9000}) {
    try {
      RunTransports(2, [bytes](Transport& t) {
        std::vector<char> memory(bytes);
        if (t.rank() == 0) {
          t.Send(1, 7, memory.data(), bytes);
          Await(t, t.Receive(1, 8, memory.data(), 1));  // never comes
        } else {
          Await(t, t.Receive(0, 7, memory.data(), 4));
        }
      });
      FAIL() << "no error";
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("bytes, not 4"), std::string::npos) << error.what();
    }
  }
}

TEST(ThreadTransport, RequestsThatWaitForALostRankFail) {
  EXPECT_THROW(RunTransports(3,
                             [](Transport& t) {
                               if (t.rank() == 1) throw std::runtime_error("broken");
                               char c;
                               Await(t, t.Receive(1, 1, &c, 1));
                             }),
               std::exception);
}

}  // namespace
}  // namespace carafe
