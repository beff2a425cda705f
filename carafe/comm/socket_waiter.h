// Waits until one of many sockets can be read or written again, or until a thread calls Wake().
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "carafe/comm/transport.h"

namespace carafe {

class SocketWaiter final : public Waiter {
 public:
  static constexpr uint32_t kWakeEvent = ~uint32_t{0};  // the id of an event that is not a socket's

  SocketWaiter();
  ~SocketWaiter() override;
  SocketWaiter(const SocketWaiter&) = delete;
  SocketWaiter& operator=(const SocketWaiter&) = delete;

  // Any thread.
  void Wait(double seconds) override;
  void Wake() override;
  double poll_interval() const override { return poll_interval_.load(std::memory_order_relaxed); }

  // The thread that uses the sockets. Events are EPOLLIN, EPOLLOUT and so on; `id` identifies the
  // socket in Poll.
  void Add(int socket, uint32_t id);
  void Change(int socket, uint32_t id, uint32_t events);
  void Remove(int socket);
  // The events that have happened, as many as fit into the buffer. Does not wait.
  std::span<const epoll_event> Poll(std::span<epoll_event> buffer);
  void ClearWake();  // after a kWakeEvent
  void SetPollInterval(double seconds) { poll_interval_.store(seconds, std::memory_order_relaxed); }

 private:
  const int events_;
  const int wake_event_;
  std::atomic<double> poll_interval_{2e-4};
};

// The speed of a connection in one direction, measured while it is busy.
class TransferRate {
 public:
  // `total`: bytes transferred so far. `busy`: more is waiting than the connection takes, or it has
  // just delivered something.
  void Update(double now, uint64_t total, bool busy) {
    if (!busy) begin_ = -1;
    if (busy && begin_ < 0) Begin(now, total);
    if (begin_ < 0 || now - begin_ < kInterval) return;
    const double rate = static_cast<double>(total - total_) / (now - begin_);
    rate_ = rate_ == 0 ? rate : rate_ + kWeight * (rate - rate_);
    Begin(now, total);
  }
  double rate() const { return rate_; }  // bytes a second; 0: not known

 private:
  static constexpr double kInterval = 2e-3;  // seconds
  static constexpr double kWeight = 0.2;     // of the newest interval
  void Begin(double now, uint64_t total) {
    begin_ = now;
    total_ = total;
  }
  double begin_ = -1;   // of the current interval; -1: not busy
  uint64_t total_ = 0;  // at begin_
  double rate_ = 0;
};

}  // namespace carafe
