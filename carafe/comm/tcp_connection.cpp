#include "carafe/comm/tcp_connection.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "carafe/comm/clock.h"

namespace carafe {
namespace {

constexpr double kConnectTimeout = 2;  // seconds for one address

sockaddr_storage Parse(const std::string& address, int port, socklen_t* length) {
  sockaddr_storage parsed = {};
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed);
      inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    *length = sizeof *v4;
  } else if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed);
             inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    *length = sizeof *v6;
  }
  return parsed;
}

}  // namespace

std::string SystemError(int error) { return std::strerror(error); }

bool WaitForEvents(int descriptor, short events, double end) {
  while (true) {
    pollfd waiting{descriptor, events, 0};
    const int ms = static_cast<int>(std::max(end - Now(), 0.0) * 1e3) + 1;
    const int count = poll(&waiting, 1, ms);
    if (count == 1) return true;
    if ((count < 0 && errno != EINTR) || Now() >= end) return false;
  }
}

Descriptor Listen(int backlog, int* port) {
  for (int family : {AF_INET6, AF_INET}) {
    Descriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (listener.get() < 0) continue;
    const int no = 0;
    if (family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_storage any = {};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    auto* address = reinterpret_cast<sockaddr*>(&any);
    if (bind(listener.get(), address, length) != 0 || listen(listener.get(), backlog) != 0 ||
        getsockname(listener.get(), address, &length) != 0)
      continue;
    *port = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in*>(&any)->sin_port
                                    : reinterpret_cast<sockaddr_in6*>(&any)->sin6_port);
    return listener;
  }
  return Descriptor();
}

std::vector<Descriptor> ListenOn(const std::vector<std::string>& addresses, int backlog,
                                 int* port) {
  std::vector<Descriptor> listeners;
  for (const std::string& address : addresses) {
    socklen_t length = 0;
    sockaddr_storage own = Parse(address, listeners.empty() ? 0 : *port, &length);
    Descriptor listener(socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    auto* bound = reinterpret_cast<sockaddr*>(&own);
    if (listener.get() < 0 || bind(listener.get(), bound, length) != 0 ||
        listen(listener.get(), backlog) != 0 || getsockname(listener.get(), bound, &length) != 0)
      continue;
    *port = ntohs(own.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&own)->sin_port
                                           : reinterpret_cast<sockaddr_in6*>(&own)->sin6_port);
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

Descriptor Connect(const std::string& address, int port, std::string* problem) {
  socklen_t length = 0;
  const sockaddr_storage to = Parse(address, port, &length);
  Descriptor s(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = s.get() < 0 ? errno : 0;
  if (error == 0 && connect(s.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0)
    error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!WaitForEvents(s.get(), POLLOUT, Now() + kConnectTimeout))
      error = ETIMEDOUT;
    else if (getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  if (error == 0) return s;
  *problem = SystemError(error);
  return Descriptor();
}

bool ReadAll(int descriptor, void* data, size_t bytes, double end) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = recv(descriptor, static_cast<char*>(data) + at, bytes - at, 0);
    if (n > 0) at += static_cast<size_t>(n);
    const bool wait = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n == 0 || (n < 0 && (!wait || !WaitForEvents(descriptor, POLLIN, end)))) return false;
  }
  return true;
}

bool WriteAll(int descriptor, const void* data, size_t bytes) {
  return send(descriptor, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// Messages are sent without delay, and the send buffer holds about what is in flight: a message
// that is in the buffer cannot be overtaken by a more urgent one, and a long queue leaves the
// cache. For short round trips the oldest congestion control is the best: the newer ones take the
// pauses between sums for a slow connection, or pace them.
void TuneSocket(int socket, int connections) {
  constexpr double kBytesPerSecond =
      2.5e9;  // of the fastest network that one connection should fill
  // Bytes of the buffer; the system doubles them. kTogether is for all connections of a rank.
  constexpr int kTogether = 128 << 10, kMin = 64 << 10, kMax = 4 << 20;
  constexpr uint32_t kShortRoundTrip = 2000;  // microseconds
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  tcp_info info = {};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  const uint32_t round_trip = info.tcpi_min_rtt;  // microseconds
  const int buffer = static_cast<int>(std::clamp<double>(
      round_trip * 1e-6 * kBytesPerSecond / 2, std::max(kTogether / connections, kMin), kMax));
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  const char kCongestionControl[] = "reno";
  if (round_trip <= kShortRoundTrip)
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
               sizeof kCongestionControl - 1);
}

size_t SendBufferBytes(int socket) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  if (getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &length) != 0 || bytes < 0) return 0;
  return static_cast<size_t>(bytes);
}

}  // namespace carafe
