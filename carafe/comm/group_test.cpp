#include "carafe/comm/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/thread_transport.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const int kSizes[] = {1, 2, 3, 5, 8};
constexpr CommTimeouts kShort = {
    .heartbeat = 0.02, .silence = 0.5, .warning = 0.1, .wait = 0.6, .farewell = 0.5};

// What each rank's function threw, by rank; "" for none. Ranks report failures, as a program does.
std::vector<std::string> Errors(int size, const std::function<void(Group&)>& rank_main,
                                const CommTimeouts& timeouts = {}) {
  std::vector<std::string> errors(size);
  RunRanks(
      size,
      [&](Group& group) {
        try {
          rank_main(group);
        } catch (const std::exception& error) {
          errors[group.rank()] = error.what();
          group.Fail(error.what());
        }
      },
      timeouts);
  return errors;
}

TEST(Group, OfOneNeedsNoThread) {
  Group group;
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(group.thread(), nullptr);
  EXPECT_EQ(group.AllGather("x", "test"), std::vector<std::string>{"x"});
  double value = 3;
  group.Sum({&value, 1});
  EXPECT_EQ(value, 3);
  group.Together("nothing", [] {});
  EXPECT_THROW(group.Together("an error", [] { throw DataError("file", 1, "wrong", ""); }),
               DataError);
}

TEST(Group, KnowsRanksAndHosts) {
  RunRanks(3, [](Group& group) {
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.host(1), "thread1");
    EXPECT_EQ(group.host(), "thread" + std::to_string(group.rank()));
    EXPECT_EQ(group.local_size(), 1);
  });
}

TEST(Group, BroadcastsFromEveryRootAtEveryLength) {
  for (int size : kSizes) {
    RunRanks(size, [](Group& group) {
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{1500001}})
        for (int root = 0; root < group.size(); ++root) {
          std::vector<unsigned char> expected(bytes);
          for (size_t i = 0; i < bytes; ++i)
            expected[i] = static_cast<unsigned char>(i * 31 + root);
          std::vector<unsigned char> data(bytes, 255);
          if (group.rank() == root) data = expected;
          group.Broadcast(data.data(), bytes, root, "bytes");
          EXPECT_TRUE(data == expected) << bytes << " from " << root;
        }
    });
  }
}

TEST(Group, GathersTextsOfDifferentLengths) {
  for (int size : kSizes) {
    RunRanks(size, [](Group& group) {
      for (size_t length : {0, 1, 5000, 200000}) {
        const auto text = [&](int r) {
          return std::string(r % 2 ? length * r : 0, static_cast<char>('a' + r));
        };
        const std::vector<std::string> all = group.AllGather(text(group.rank()), "texts");
        ASSERT_EQ(all.size(), static_cast<size_t>(group.size()));
        for (int r = 0; r < group.size(); ++r) ASSERT_EQ(all[r], text(r));
      }
    });
  }
}

TEST(Group, SumsInTheFixedTree) {
  RunRanks(5, [](Group& group) {
    const double part[5] = {0.1, 1e17, -1e17, 0.7, 3e-9};
    std::vector<double> values(3, part[group.rank()]);
    group.Sum(values);
    for (double v : values) EXPECT_EQ(v, ((part[0] + part[1]) + (part[2] + part[3])) + part[4]);
  });
}

TEST(Group, BarrierHoldsUntilTheLastComes) {
  std::atomic<int> arrived{0};
  RunRanks(4, [&](Group& group) {
    for (int round = 1; round <= 5; ++round) {
      ++arrived;
      group.Barrier("all");
      EXPECT_GE(arrived.load(), 4 * round);
      group.Barrier("all again");
    }
  });
}

// By rank, what `body` threw in Together.
std::vector<ErrorFields> CommonErrors(int size, const std::function<void(Group&)>& body) {
  std::vector<ErrorFields> errors(static_cast<size_t>(size));
  RunRanks(size, [&](Group& group) {
    try {
      group.Together("a common task", [&] { body(group); });
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const Error& error) {
      At(errors, group.rank()) = error.fields();
    }
    group.Together("nothing", [] {});  // the group still works
  });
  return errors;
}

TEST(Group, AllRanksThrowTheErrorOfTheLowestFailingRank) {
  const auto errors = CommonErrors(4, [](Group& group) {
    if (group.rank() >= 2) throw DataError("train_lmdb", group.rank(), "broken", "copy it");
  });
  for (const ErrorFields& error : errors) {
    EXPECT_EQ(error.Text(),
              "rank 2 on thread2: train_lmdb: record 2: error: broken\n  fix: copy it");
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.origin, "rank 2 on thread2");
    EXPECT_EQ(error.where.record, 2);
    EXPECT_EQ(error.fix, "copy it");
  }
}

TEST(Group, NamesNoRankWhereAllFail) {
  for (const ErrorFields& error : CommonErrors(3, [](Group&) {
         throw ConfigError({"lenet.prototxt", 3, 1}, "bad", "");
       }))
    EXPECT_EQ(error.Text(), "lenet.prototxt:3:1: error: bad");
}

TEST(Group, RunsOnRankZeroForAll) {
  RunRanks(3, [](Group& group) {
    int runs = 0;
    group.OnRoot("a count", [&] { ++runs; });
    EXPECT_EQ(runs, group.rank() == 0 ? 1 : 0);
    try {
      group.OnRoot("a file", [] { throw ConfigError("bad", ""); });
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(), "rank 0 on thread0: error: bad");
    }
  });
}

// A failed snapshot is caught by all ranks, which go on; a later error of one rank is another one.
TEST(Group, ACommonErrorThatWasCaughtDoesNotHideALaterOne) {
  const std::vector<std::string> errors = Errors(2, [](Group& group) {
    EXPECT_THROW(group.OnRoot("a file", [] { throw Error("no space"); }), Error);
    if (group.rank() == 0) throw DataError("train_lmdb", 7, "broken record", "");
    group.Barrier("the first step");
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 0 on thread0"), HasSubstr("broken record")));
}

TEST(Group, ACommonErrorThatWasHandledMayComeAgainOnOneRank) {
  const std::vector<std::string> errors = Errors(2, [](Group& group) {
    EXPECT_THROW(group.Together("a file", [] { throw Error("no space"); }), Error);
    group.Barrier("the next test");
    if (group.rank() == 0) throw Error("no space");
    group.Barrier("the first step");
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 0 on thread0"), HasSubstr("no space")));
}

TEST(Group, AFailingRankEndsTheWaitsOfAllOthers) {
  for (int size : {2, 3, 7}) {
    const std::vector<std::string> errors = Errors(size, [](Group& group) {
      if (group.rank() == 1) throw DataError("train_lmdb", 7, "broken record", "");
      group.Barrier("the first step");
    });
    for (int r = 0; r < size; ++r) {
      if (r == 1) continue;
      EXPECT_THAT(errors[r], AllOf(HasSubstr("rank 1 on thread1"), HasSubstr("train_lmdb"),
                                   HasSubstr("broken record")));
    }
  }
}

// The ranks that reported what rank_main threw.
class Reporters {
 public:
  std::vector<int> Run(int size, const std::function<void(Group&)>& rank_main,
                       const CommTimeouts& timeouts = {}) {
    RunRanks(
        size,
        [&](Group& group) {
          try {
            rank_main(group);
          } catch (const std::exception& error) {
            group.Fail(error.what(), [&] {
              std::lock_guard lock(mutex_);
              ranks_.push_back(group.rank());
              reported = true;
            });
          }
        },
        timeouts);
    return ranks_;
  }
  std::atomic<bool> reported{false};

 private:
  std::mutex mutex_;
  std::vector<int> ranks_;
};

TEST(Group, OnlyRankZeroTellsTheUser) {
  for (int culprit : {0, 2})
    EXPECT_THAT(Reporters().Run(3,
                                [&](Group& group) {
                                  if (group.rank() == culprit) throw std::runtime_error("bad");
                                  group.Barrier("a step");
                                }),
                ElementsAre(0));
  for (int size : {1, 3}) {
    EXPECT_THAT(
        Reporters().Run(
            size, [](Group& group) { group.Together("an error", [] { throw Error("bad"); }); }),
        ElementsAre(0));
    EXPECT_THAT(Reporters().Run(size, [](Group&) { throw std::runtime_error("bad"); }),
                ElementsAre(0));
  }
}

TEST(Group, TheCulpritTellsTheUserWhenRankZeroTakesNoNote) {
  Reporters reporters;
  EXPECT_THAT(reporters.Run(
                  3,
                  [&](Group& group) {
                    if (group.rank() == 2) throw std::runtime_error("bad");
                    while (group.rank() == 0 && !reporters.reported)  // computes, and polls nothing
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    group.Barrier("a step");
                  },
                  kShort),
              ElementsAre(2));
}

TEST(Group, AFailureBeforeTheNextWaitIsToldThere) {
  std::vector<std::string> errors(2);
  RunRanks(2, [&](Group& group) {
    if (group.rank() == 0) {
      group.Fail("gone");
      return;
    }
    try {
      while (true) {
        group.Check();
        std::this_thread::yield();
      }
    } catch (const CommError& error) {
      errors[1] = error.what();
    }
    EXPECT_THROW(group.Barrier("a step"), CommError);
  });
  EXPECT_THAT(errors[1], HasSubstr("rank 0 on thread0: gone"));
}

TEST(Group, RunRanksRethrowsTheFirstError) {
  try {
    RunRanks(4, [](Group& group) {
      if (group.rank() == 3) throw std::out_of_range("rank 3 is out");
      group.Barrier("never complete");
    });
    FAIL() << "no error";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "rank 3 is out");
  }
}

TEST(Group, ALateRankIsNamedWithWhatIsWaitedFor) {
  std::atomic<bool> over{false};
  const std::vector<std::string> errors = Errors(
      3,
      [&](Group& group) {
        if (group.rank() == 2) {  // alive, but it never comes
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        try {
          group.Barrier("the snapshot");
        } catch (...) {
          over = true;
          throw;
        }
      },
      kShort);
  for (int r : {0, 1})
    EXPECT_THAT(errors[r], AllOf(HasSubstr("waited"), HasSubstr("rank 2 on thread2"),
                                 HasSubstr("the snapshot")));
}

TEST(Group, WaitsForAnnouncedWork) {
  RunRanks(
      2,
      [&](Group& group) {
        if (group.rank() == 0) {
          group.Announce("a long test");
          std::this_thread::sleep_for(std::chrono::milliseconds(900));
          group.Announce("");
        }
        group.Barrier("after the test");
      },
      kShort);
}

TEST(Group, ASilentRankIsNamed) {
  constexpr int kRanks = 3;
  const auto hub = MakeThreadHub(kRanks);
  std::vector<std::string> errors(kRanks);
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      CommTimeouts timeouts = kShort;
      timeouts.wait = 100;
      if (r == 1) timeouts.heartbeat = 1e9;  // gives no sign of life
      if (r == 1) timeouts.silence = 1e9;
      Group group(
          std::make_unique<CommThread>([&] { return MakeThreadTransport(hub, r); }, timeouts));
      try {
        while (r == 1 && ended < kRanks - 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        group.Barrier("step 9");
      } catch (const CommError& error) {
        errors[r] = error.what();
      }
      ++ended;
    });
  for (std::thread& thread : threads) thread.join();
  for (int r : {0, 2})
    EXPECT_THAT(errors[r], AllOf(HasSubstr("rank 1 on thread1 is lost"),
                                 HasSubstr("no sign of life"), HasSubstr("step 9")));
}

TEST(Group, ARankThatHasFinishedIsNotWaitedForLong) {
  const std::vector<std::string> errors =
      Errors(3,
             [](Group& group) {
               if (group.rank() != 2) group.Barrier("the last test");
             },
             {.heartbeat = 0.02, .silence = 0.3, .wait = 100, .farewell = 0.5});
  for (int r : {0, 1})
    EXPECT_THAT(errors[r],
                AllOf(HasSubstr("rank 2 on thread2 has finished"), HasSubstr("the last test")));
}

TEST(Group, RanksThatMakeDifferentCallsFindOut) {
  const std::vector<std::string> errors = Errors(2, [](Group& group) {
    if (group.rank() == 0) group.Barrier("one");
    std::vector<char> data(100);
    if (group.rank() == 1) group.Broadcast(data.data(), data.size(), 1, "two");
    group.Barrier("three");
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank ")));
}

TEST(CommThread, RethrowsWhatTheTransportsFactoryThrows) {
  EXPECT_THROW(CommThread([]() -> std::unique_ptr<Transport> { throw ConfigError("no MPI", ""); },
                          CommTimeouts{}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
