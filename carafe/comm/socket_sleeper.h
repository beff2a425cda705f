// Waits until a socket of many has something to read, or takes something again, or somebody rings.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "carafe/comm/transport.h"

namespace carafe {

class SocketSleeper final : public Sleeper {
 public:
  static constexpr uint32_t kBell = ~uint32_t{0};  // who an event is of, if not of a socket

  SocketSleeper();
  ~SocketSleeper() override;
  SocketSleeper(const SocketSleeper&) = delete;
  SocketSleeper& operator=(const SocketSleeper&) = delete;

  // By any thread.
  void Sleep(double seconds) override;
  void WakeUp() override;
  double Rest() const override { return rest_.load(std::memory_order_relaxed); }

  // By the thread that uses the sockets. Events are EPOLLIN, EPOLLOUT and so on.
  void Add(int socket, uint32_t who);
  void Change(int socket, uint32_t who, uint32_t events);
  void Remove(int socket);
  // What there is to do now; as many as there is room for.
  std::span<const epoll_event> Look(std::span<epoll_event> room);
  void Silence();  // the bell
  void SetRest(double seconds) { rest_.store(seconds, std::memory_order_relaxed); }

 private:
  const int events_;
  const int bell_;
  std::atomic<double> rest_{2e-4};
};

// How fast a line is, while there is something to do for it.
class LineRate {
 public:
  // `sent`: bytes ever, either way; `waiting`: there is more than the line takes, or it has just
  // brought something.
  void Note(double now, uint64_t sent, bool waiting) {
    if (!waiting) begin_ = -1;
    if (waiting && begin_ < 0) Begin(now, sent);
    if (begin_ < 0 || now - begin_ < kInterval) return;
    const double rate = static_cast<double>(sent - sent_) / (now - begin_);
    rate_ = rate_ == 0 ? rate : rate_ + kWeight * (rate - rate_);
    Begin(now, sent);
  }
  double rate() const { return rate_; }  // bytes a second; 0: not known

 private:
  static constexpr double kInterval = 2e-3;  // seconds
  static constexpr double kWeight = 0.2;     // of the last one
  void Begin(double now, uint64_t sent) {
    begin_ = now;
    sent_ = sent;
  }
  double begin_ = -1;
  uint64_t sent_ = 0;  // at begin_
  double rate_ = 0;
};

}  // namespace carafe
