#include "carafe/comm/socket_sleeper.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {

SocketSleeper::SocketSleeper()
    : events_(epoll_create1(EPOLL_CLOEXEC)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (events_ < 0 || bell_ < 0)
    throw CommError(fmt::format("the system gives no means to wait: {}", std::strerror(errno)),
                    "raise the number of open files (ulimit -n)");
  Add(bell_, kBell);
}

SocketSleeper::~SocketSleeper() {
  close(bell_);
  close(events_);
}

void SocketSleeper::Sleep(double seconds) {
  epoll_event event;  // what it sees stays for Look
  const auto whole = static_cast<time_t>(seconds);
  const timespec time = {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  if (epoll_pwait2(events_, &event, 1, &time, nullptr) >= 0 || errno == EINTR) return;
  // Not on systems before Linux 5.11.
  epoll_wait(events_, &event, 1, static_cast<int>(std::ceil(seconds * 1e3)));
}

void SocketSleeper::WakeUp() {
  const uint64_t one = 1;
  (void)!write(bell_, &one, sizeof one);  // fails only where it rings already
}

void SocketSleeper::Silence() {
  uint64_t rings;
  (void)!read(bell_, &rings, sizeof rings);
}

void SocketSleeper::Add(int socket, uint32_t who) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = who;
  if (epoll_ctl(events_, EPOLL_CTL_ADD, socket, &event) != 0)
    throw CommError(fmt::format("a socket cannot be watched: {}", std::strerror(errno)), "");
}

void SocketSleeper::Change(int socket, uint32_t who, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u32 = who;
  epoll_ctl(events_, EPOLL_CTL_MOD, socket, &event);
}

void SocketSleeper::Remove(int socket) { epoll_ctl(events_, EPOLL_CTL_DEL, socket, nullptr); }

std::span<const epoll_event> SocketSleeper::Look(std::span<epoll_event> room) {
  const int count = epoll_wait(events_, room.data(), static_cast<int>(room.size()), 0);
  return room.first(static_cast<size_t>(std::max(count, 0)));
}

}  // namespace carafe
