// Makes batches ahead of the net, in a thread of its own.
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
#include "carafe/core/shape.h"

namespace carafe {

// What a data layer needs for one Forward.
template <typename T>
struct Batch {
  Shape shape;                       // of data, e.g. (rows, c, h, w)
  std::vector<T> data;               // shape.Count() values
  std::vector<T> labels;             // one per row
  std::vector<std::vector<T>> tops;  // instead, where a layer has any number of tops
};

// The consumer is one thread, which also constructs and destroys; the maker is called by the inner
// thread alone, which starts with the first Take.
template <typename T>
class Prefetcher {
 public:
  using Maker = std::function<void(const Pass&, const Replica&, Batch<T>*)>;

  // Keeps up to `depth` (>= 1) finished batches. The maker fills a batch that may hold an old one.
  Prefetcher(int depth, Maker maker);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();  // ends the thread; waits for the batch in the making at most

  // The batch of this pass; valid until the next Take. Waits until it is made, rethrows what the
  // maker threw for it. The passes index + stride, index + 2 stride, ... are made ahead; asking for
  // another one, or with other settings, throws those away and starts anew from there.
  const Batch<T>& Take(const Pass& pass, const Replica& replica);

  // The time that Take has waited in all: how much slower than the net the data are.
  double wait_seconds() const { return wait_seconds_; }
  int64_t restarts() const { return restarts_; }  // the first start is one

 private:
  struct Made {
    std::unique_ptr<Batch<T>> batch;
    std::exception_ptr error;
  };
  void Run();

  const int depth_;
  const Maker maker_;
  double wait_seconds_ = 0;            // consumer's
  int64_t restarts_ = 0;               // consumer's
  std::unique_ptr<Batch<T>> current_;  // consumer's
  std::optional<Pass> expected_;       // consumer's: what the next Take should ask for
  std::optional<Replica> expected_replica_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Made> ready_;
  std::vector<std::unique_ptr<Batch<T>>> spare_;
  Pass next_;  // to be made
  Replica replica_;
  int64_t generation_ = 0;  // counts restarts: what was begun before one is thrown away
  bool running_ = false;    // false before the first Take and after an error
  bool stop_ = false;

  std::thread thread_;  // last: all else is there when it runs
};

}  // namespace carafe
