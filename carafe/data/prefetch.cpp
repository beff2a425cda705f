#include "carafe/data/prefetch.h"

#include <algorithm>
#include <utility>

#include "carafe/base/timer.h"

namespace carafe {

template <typename T>
Prefetcher<T>::Prefetcher(int64_t depth, Load load)
    : depth_(std::max<int64_t>(1, depth)), load_(std::move(load)) {}

template <typename T>
Prefetcher<T>::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

template <typename T>
const Batch<T>& Prefetcher<T>::Take(const Pass& pass, const Replica& replica) {
  std::unique_lock lock(mutex_);
  if (current_ != nullptr) spare_.push_back(std::move(current_));
  if (expected_ != pass || expected_replica_ != replica) Restart(pass, replica);
  changed_.notify_all();
  if (ready_.empty()) {
    const Timer timer;
    changed_.wait(lock, [this] { return !ready_.empty(); });
    wait_seconds_ += timer.Seconds();
  }
  Loaded loaded = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  if (loaded.error != nullptr) {
    expected_.reset();  // asked again, the pass is tried again
    std::rethrow_exception(loaded.error);
  }
  current_ = std::move(loaded.batch);
  expected_ = pass;
  expected_->index += pass.stride;
  expected_replica_ = replica;
  return *current_;
}

// With the mutex held.
template <typename T>
void Prefetcher<T>::Restart(const Pass& pass, const Replica& replica) {
  for (Loaded& loaded : ready_) spare_.push_back(std::move(loaded.batch));
  ready_.clear();
  next_ = pass;
  replica_ = replica;
  running_ = true;
  ++generation_;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

template <typename T>
void Prefetcher<T>::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (running_ && std::ssize(ready_) < depth_); });
    if (stop_) return;
    const int64_t generation = generation_;
    const Pass pass = next_;
    const Replica replica = replica_;
    Loaded loaded;
    if (!spare_.empty()) {
      loaded.batch = std::move(spare_.back());
      spare_.pop_back();
    }
    lock.unlock();
    try {
      if (loaded.batch == nullptr) loaded.batch = std::make_unique<Batch<T>>();
      load_(pass, replica, loaded.batch.get());
    } catch (...) {
      loaded.error = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) {
      spare_.push_back(std::move(loaded.batch));
      continue;
    }
    if (loaded.error != nullptr) running_ = false;
    next_.index += next_.stride;
    ready_.push_back(std::move(loaded));
    changed_.notify_all();
  }
}

template class Prefetcher<float>;
template class Prefetcher<double>;

}  // namespace carafe
