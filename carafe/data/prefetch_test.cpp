#include "carafe/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <stdexcept>

namespace carafe {
namespace {

// A batch whose only value is the number of its pass.
void MakeNumbered(const Pass& pass, const Replica& replica, Batch<float>* batch) {
  batch->arrays = {{Shape{1}, {static_cast<float>(pass.index)}},
                   {Shape{1}, {static_cast<float>(replica.index)}}};
}

float Number(const Batch<float>& batch) { return batch.arrays.at(0).values.at(0); }
float Worker(const Batch<float>& batch) { return batch.arrays.at(1).values.at(0); }

TEST(Prefetch, LoadsPassesInTheirOrderAndEachOnce) {
  std::vector<int64_t> loaded;  // by the inner thread, read after its end
  {
    Prefetcher<float> prefetcher(3, [&](const Pass& pass, const Replica& replica, Batch<float>* b) {
      MakeNumbered(pass, replica, b);
      loaded.push_back(pass.index);
    });
    for (int64_t n = 4; n < 200; n += 2) {
      EXPECT_EQ(Number(prefetcher.Take({.index = n, .stride = 2}, {})), n);
    }
  }
  for (size_t i = 0; i < loaded.size(); ++i) EXPECT_EQ(loaded[i], 4 + 2 * static_cast<int>(i));
}

TEST(Prefetch, RestartsForAnotherPassOrOtherSettings) {
  Prefetcher<float> prefetcher(4, MakeNumbered);
  EXPECT_EQ(Number(prefetcher.Take({.index = 0}, {})), 0);
  EXPECT_EQ(Number(prefetcher.Take({.index = 100}, {})), 100);
  EXPECT_EQ(Number(prefetcher.Take({.index = 101}, {})), 101);
  EXPECT_EQ(Number(prefetcher.Take({.index = 101}, {})), 101);  // the same once more
  EXPECT_EQ(Number(prefetcher.Take({.index = 3}, {})), 3);      // back
  EXPECT_EQ(Number(prefetcher.Take({.seed = 1, .index = 4}, {})), 4);
  EXPECT_EQ(Worker(prefetcher.Take({.seed = 1, .index = 5}, {1, 2, 0})), 1);
  EXPECT_EQ(Number(prefetcher.Take({.seed = 1, .index = 6, .stride = 5}, {1, 2, 0})), 6);
  EXPECT_EQ(Number(prefetcher.Take({.seed = 1, .index = 11, .stride = 5}, {1, 2, 0})), 11);
}

TEST(Prefetch, MakesAtMostDepthBatchesAhead) {
  std::atomic<int> made = 0;
  std::promise<void> third;
  Prefetcher<float> prefetcher(2, [&](const Pass& pass, const Replica& replica, Batch<float>* b) {
    MakeNumbered(pass, replica, b);
    if (++made == 3) third.set_value();
  });
  prefetcher.Take({.index = 0}, {});
  third.get_future().wait();  // passes 1 and 2 are made without being asked for
  EXPECT_EQ(made, 3);
  prefetcher.Take({.index = 1}, {});
  prefetcher.Take({.index = 2}, {});
  EXPECT_LE(made, 5);
}

TEST(Prefetch, HandsTheErrorOfAPassToWhoTakesItAndTriesAgain) {
  std::atomic<int> failures = 0;
  Prefetcher<float> prefetcher(4, [&](const Pass& pass, const Replica& replica, Batch<float>* b) {
    if (pass.index == 2 && failures++ == 0) throw std::runtime_error("record 17 is broken");
    MakeNumbered(pass, replica, b);
  });
  EXPECT_EQ(Number(prefetcher.Take({.index = 0}, {})), 0);
  EXPECT_EQ(Number(prefetcher.Take({.index = 1}, {})), 1);
  try {
    prefetcher.Take({.index = 2}, {});
    FAIL() << "the error was lost";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "record 17 is broken");
  }
  EXPECT_EQ(Number(prefetcher.Take({.index = 2}, {})), 2);
  EXPECT_EQ(Number(prefetcher.Take({.index = 3}, {})), 3);
}

TEST(Prefetch, EndsWhateverItIsDoing) {
  { Prefetcher<float> never_used(4, MakeNumbered); }
  {
    Prefetcher<float> full(1, MakeNumbered);
    full.Take({.index = 0}, {});
  }
  {
    Prefetcher<float> failed(
        4, [](const Pass&, const Replica&, Batch<float>*) { throw std::runtime_error("no"); });
    EXPECT_THROW(failed.Take({.index = 0}, {}), std::runtime_error);
  }
  for (int i = 0; i < 100; ++i) {  // in the middle of making
    Prefetcher<float> busy(8, MakeNumbered);
    busy.Take({.index = i}, {});
  }
}

TEST(Prefetch, CountsTheTimeThatTheConsumerWaited) {
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  Prefetcher<float> prefetcher(1, [&](const Pass& pass, const Replica& replica, Batch<float>* b) {
    gate.wait();
    MakeNumbered(pass, replica, b);
  });
  EXPECT_EQ(prefetcher.wait_seconds(), 0);
  std::thread opener([&] { go.set_value(); });
  prefetcher.Take({.index = 0}, {});
  opener.join();
  EXPECT_GT(prefetcher.wait_seconds(), 0);
}

TEST(Prefetch, ReusesTheMemoryOfBatches) {
  std::mutex mutex;
  std::set<const void*> seen;
  Prefetcher<float> prefetcher(2, [&](const Pass& pass, const Replica& replica, Batch<float>* b) {
    MakeNumbered(pass, replica, b);
    const std::lock_guard lock(mutex);
    seen.insert(b);
  });
  for (int64_t n = 0; n < 300; ++n) prefetcher.Take({.index = n}, {});
  EXPECT_LE(seen.size(), 4u);  // two ready, one being loaded, one taken
}

}  // namespace
}  // namespace carafe
