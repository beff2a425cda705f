#include "carafe/comm/socket_waiter.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {

SocketWaiter::SocketWaiter()
    : events_(epoll_create1(EPOLL_CLOEXEC)), wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (events_ < 0 || wake_event_ < 0)
    throw CommError(
        fmt::format("the system cannot provide events to wait for: {}", std::strerror(errno)),
        "raise the number of open files (ulimit -n)");
  Add(wake_event_, kWakeEvent);
}

SocketWaiter::~SocketWaiter() {
  close(wake_event_);
  close(events_);
}

void SocketWaiter::Wait(double seconds) {
  epoll_event event;  // epoll reports it again in Poll
  const auto whole = static_cast<time_t>(seconds);
  const timespec time = {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  if (epoll_pwait2(events_, &event, 1, &time, nullptr) >= 0 || errno == EINTR) return;
  // Not on systems before Linux 5.11.
  epoll_wait(events_, &event, 1, static_cast<int>(std::ceil(seconds * 1e3)));
}

void SocketWaiter::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_event_, &one, sizeof one);  // fails only if it is set already
}

void SocketWaiter::ClearWake() {
  uint64_t count;
  (void)!read(wake_event_, &count, sizeof count);
}

void SocketWaiter::Add(int socket, uint32_t id) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = id;
  if (epoll_ctl(events_, EPOLL_CTL_ADD, socket, &event) != 0)
    throw CommError(fmt::format("a socket cannot be watched: {}", std::strerror(errno)), "");
}

void SocketWaiter::Change(int socket, uint32_t id, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u32 = id;
  epoll_ctl(events_, EPOLL_CTL_MOD, socket, &event);
}

void SocketWaiter::Remove(int socket) { epoll_ctl(events_, EPOLL_CTL_DEL, socket, nullptr); }

std::span<const epoll_event> SocketWaiter::Poll(std::span<epoll_event> buffer) {
  const int count = epoll_wait(events_, buffer.data(), static_cast<int>(buffer.size()), 0);
  return buffer.first(static_cast<size_t>(std::max(count, 0)));
}

}  // namespace carafe
