#include "carafe/data/prefetch.h"

#include <algorithm>
#include <utility>

#include "carafe/base/timer.h"

namespace carafe {

template <typename T>
Prefetcher<T>::Prefetcher(int depth, Maker maker)
    : depth_(std::max(1, depth)), maker_(std::move(maker)) {}

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
  if (expected_ != pass || expected_replica_ != replica) {
    for (Made& made : ready_) spare_.push_back(std::move(made.batch));
    ready_.clear();
    next_ = pass;
    replica_ = replica;
    running_ = true;
    ++generation_;
    ++restarts_;
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_all();
  if (ready_.empty()) {
    const Timer timer;
    changed_.wait(lock, [this] { return !ready_.empty(); });
    wait_seconds_ += timer.Seconds();
  }
  Made made = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  if (made.error != nullptr) {
    expected_.reset();  // asked again, the pass is tried again
    std::rethrow_exception(made.error);
  }
  current_ = std::move(made.batch);
  expected_ = pass;
  expected_->index += pass.stride;
  expected_replica_ = replica;
  return *current_;
}

template <typename T>
void Prefetcher<T>::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stop_ || (running_ && ready_.size() < static_cast<size_t>(depth_));
    });
    if (stop_) return;
    const int64_t generation = generation_;
    const Pass pass = next_;
    const Replica replica = replica_;
    Made made;
    if (!spare_.empty()) {
      made.batch = std::move(spare_.back());
      spare_.pop_back();
    }
    lock.unlock();
    try {
      if (made.batch == nullptr) made.batch = std::make_unique<Batch<T>>();
      maker_(pass, replica, made.batch.get());
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) {
      spare_.push_back(std::move(made.batch));
      continue;
    }
    if (made.error != nullptr) running_ = false;
    next_.index += next_.stride;
    ready_.push_back(std::move(made));
    changed_.notify_all();
  }
}

template class Prefetcher<float>;
template class Prefetcher<double>;

}  // namespace carafe
