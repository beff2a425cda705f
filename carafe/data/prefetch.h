// Loads batches ahead of the net, in a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "carafe/core/run_context.h"
#include "carafe/data/batch_loader.h"

namespace carafe {

// The consumer is one thread, which also constructs and destroys it; `load` is called by the inner
// thread only, which starts with the first Take.
template <typename T>
class Prefetcher {
 public:
  // Fills a batch, which may hold an old one.
  using Load = std::function<void(const Pass&, const Replica&, Batch<T>*)>;

  // Keeps up to `depth` (at least 1) finished batches.
  Prefetcher(int64_t depth, Load load);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();  // stops the thread; waits until the batch it is loading is complete

  // The batch of this pass; valid until the next Take. Waits until it is loaded, rethrows what
  // `load` threw for it. The passes index + stride, index + 2 stride, ... are loaded ahead; asking
  // for another one, or with other settings, discards those and restarts from there.
  const Batch<T>& Take(const Pass& pass, const Replica& replica);

  // The total time that Take has waited: by how much the data are slower than the net.
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Loaded {
    std::unique_ptr<Batch<T>> batch;
    std::exception_ptr error;
  };
  void Restart(const Pass& pass, const Replica& replica);
  void Run();

  const int64_t depth_;
  const Load load_;
  double wait_seconds_ = 0;  // the consumer's, like the members up to the mutex
  std::unique_ptr<Batch<T>> current_;
  std::optional<Pass> expected_;  // what the next Take should ask for
  std::optional<Replica> expected_replica_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Loaded> ready_;
  std::vector<std::unique_ptr<Batch<T>>> spare_;
  Pass next_;  // to be loaded
  Replica replica_;
  int64_t generation_ = 0;  // counts restarts: what was begun before one is discarded
  bool running_ = false;    // false before the first Take and after an error
  bool stop_ = false;

  std::thread thread_;  // last: it uses all other members
};

}  // namespace carafe
