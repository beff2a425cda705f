#include "carafe/exchange/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "carafe/comm/thread_transport.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

// All ranks in one thread, polled in a random order that the seed fixes.
class World {
 public:
  World(int size, const std::vector<int64_t>& counts, const EngineOptions& options, int seed)
      : size_(size), counts_(counts), random_(seed), hub_(MakeThreadHub(size)) {
    for (int r = 0; r < size; ++r) {
      transports_.push_back(MakeThreadTransport(hub_, r));
      std::vector<std::span<float>> places;
      auto& memory = memory_.emplace_back();
      for (int64_t count : counts) memory.emplace_back(count);
      for (std::vector<float>& bucket : memory) places.emplace_back(bucket);
      engines_.push_back(std::make_unique<Engine<float>>(r, size, places, options));
      ready_.emplace_back();
      complete_.emplace_back();
    }
  }

  // Each rank announces the buckets in an order of its own; a bucket again only when it is
  // complete.
  void Step(int step) {
    for (int r = 0; r < size_; ++r) {
      ready_[r].resize(counts_.size());
      std::iota(ready_[r].begin(), ready_[r].end(), 0);
      std::shuffle(ready_[r].begin(), ready_[r].end(), random_);
      complete_[r].clear();
      for (size_t b = 0; b < counts_.size(); ++b)
        for (int64_t i = 0; i < counts_[b]; ++i)
          memory_[r][b][i] = OrderSensitive<float>(r, step + static_cast<int64_t>(b) * 17 + i);
    }
    int idle = 0;
    while (idle < 200 * size_) {
      const int r = Draw(size_);
      if (!ready_[r].empty() && Draw(3) == 0) {
        engines_[r]->OnReady(ready_[r].back());
        ready_[r].pop_back();
      }
      idle = engines_[r]->Poll(*transports_[r]) || !ready_[r].empty() ? 0 : idle + 1;
      for (int b : engines_[r]->TakeComplete()) complete_[r].push_back(b);
    }
    for (int r = 0; r < size_; ++r) {
      EXPECT_TRUE(engines_[r]->Idle());
      std::sort(complete_[r].begin(), complete_[r].end());
      std::vector<int> all(counts_.size());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(complete_[r], all) << "rank " << r << " of " << size_;
      int64_t wrong = 0;
      for (size_t b = 0; b < counts_.size(); ++b)
        for (int64_t i = 0; i < counts_[b]; ++i)
          wrong += memory_[r][b][i] != TreeByHand<float>(0, size_, [&](int part) {
                     return OrderSensitive<float>(part, step + static_cast<int64_t>(b) * 17 + i);
                   });
      EXPECT_EQ(wrong, 0) << "rank " << r << " of " << size_;
    }
  }

  int64_t bytes_sent() const {
    int64_t sum = 0;
    for (const auto& engine : engines_) sum += engine->bytes_sent();
    return sum;
  }

 private:
  int Draw(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  const int size_;
  const std::vector<int64_t> counts_;
  std::mt19937 random_;
  std::shared_ptr<ThreadHub> hub_;
  std::vector<std::vector<std::vector<float>>> memory_;  // by rank and bucket
  std::vector<std::unique_ptr<Transport>> transports_;   // before the memory that they hold
  std::vector<std::unique_ptr<Engine<float>>> engines_;
  std::vector<std::vector<int>> ready_;
  std::vector<std::vector<int>> complete_;
};

TEST(Engine, SumsInAnyOrderOfEventsAtAnyChunkSize) {
  for (int size : {1, 2, 3, 5, 7, 8})
    for (int seed = 0; seed < 12; ++seed) {
      const EngineOptions options{.chunk_bytes = seed % 3 == 0 ? size_t{40} : size_t{1000},
                                  .slots = 1 + static_cast<size_t>(seed) % 4};
      World world(size, {0, 1, 2, 100, 7, 333, 8, 64}, options, seed);
      for (int step = 0; step < 3; ++step) world.Step(step);
    }
}

TEST(Engine, SumsMessagesThatWaitForTheirReceiver) {
  for (int size : {2, 3, 5}) {  // chunks above what a transport copies at once
    World world(size, {30000, 5, 10001}, {.chunk_bytes = 8192, .slots = 2}, size);
    for (int step = 0; step < 2; ++step) world.Step(step);
  }
}

TEST(Engine, MovesTwiceTheBucketLessItsOwnShare) {
  for (int size : {2, 4, 8}) {
    World world(size, {1600}, {}, 1);
    world.Step(0);
    EXPECT_EQ(world.bytes_sent(), 2 * (size - 1) * 1600 * int64_t{sizeof(float)});
  }
}

}  // namespace
}  // namespace carafe
