// std::mutex and std::condition_variable with the annotations that clang's thread-safety analysis
// needs; those of libstdc++ have none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "carafe/base/thread_annotations.h"

namespace carafe {

class CARAFE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() CARAFE_ACQUIRE() { mutex_.lock(); }
  void Unlock() CARAFE_RELEASE() { mutex_.unlock(); }
  bool TryLock() CARAFE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  // For functions that run only while the mutex is held although the analysis cannot see it, such
  // as callbacks. Does nothing at run time.
  void AssertHeld() const CARAFE_ASSERT_HELD(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex as long as it lives.
class CARAFE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CARAFE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() CARAFE_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may end without a reason: check the condition in a loop.
class CondVar {
 public:
  void Wait(Mutex& mutex) CARAFE_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False: the time is up.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point end) CARAFE_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, end) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// The moment `seconds` from now, for WaitUntil.
inline std::chrono::steady_clock::time_point After(double seconds) {
  using Clock = std::chrono::steady_clock;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace carafe
