#include "carafe/comm/tcp_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>

#include "carafe/base/error.h"
#include "carafe/comm/pace.h"
#include "carafe/comm/set_up.h"

namespace carafe {
namespace {

constexpr int kMostAddresses = 8;
constexpr double kConnect = 2;  // seconds for one address
constexpr double kAnswer = 20;  // seconds for the rank behind it, which may itself be connecting

struct Cookie {
  uint64_t words[2];
  bool operator==(const Cookie&) const = default;
};

// What a rank tells all others.
struct Offer {
  int32_t wanted;
  int32_t port;
  Cookie cookie;  // whoever shows it was told by this rank, through the other transport
  char identity[512];
  char addresses[kMostAddresses][48];
  char problem[256];  // "": it can be called
};

// Who calls, the first bytes of every connection; answered by the caller's cookie. An address may
// lead to another machine than the one that has published it.
struct Hello {
  Cookie cookie;  // of the one that is called
  int32_t from;
  int32_t to;
};

struct Outcome {
  char problem[256];  // "": all is well
};

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

std::string SystemError(int error = errno) { return std::strerror(error); }

void AllowDescriptors(int more) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(more) + 512;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);  // where that is not allowed, sockets fail with a reason
}

// Waits for `events` until `end` (see Now).
bool Ready(int descriptor, short events, double end) {
  while (true) {
    pollfd waiting{descriptor, events, 0};
    const int ms = static_cast<int>(std::max(end - Now(), 0.0) * 1e3) + 1;
    const int count = poll(&waiting, 1, ms);
    if (count == 1) return true;
    if ((count < 0 && errno != EINTR) || Now() >= end) return false;
  }
}

// ---- Addresses ----

// Megabits a second; 0 where the system does not know.
int64_t SpeedOf(const std::string& interface) {
  int64_t speed = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return std::max<int64_t>(speed, 0);
}

std::string Text(const sockaddr& address) {
  char text[64] = "";
  const socklen_t length =
      address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(&address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text
                                                                                           : "";
}

bool Usable(const ifaddrs& entry) {
  if (!entry.ifa_addr || !(entry.ifa_flags & IFF_UP) || (entry.ifa_flags & IFF_LOOPBACK))
    return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

template <typename Each>
void ForInterfaces(const Each& each) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const ifaddrs* entry = all; entry; entry = entry->ifa_next)
    if (Usable(*entry)) each(*entry);
  freeifaddrs(all);
}

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

// Whether one of this host's interfaces is in the same network (IPv4) as the address.
bool IsNear(const std::string& address) {
  in_addr other = {};
  if (inet_pton(AF_INET, address.c_str(), &other) != 1) return false;
  bool near = false;
  ForInterfaces([&](const ifaddrs& entry) {
    if (entry.ifa_addr->sa_family != AF_INET || !entry.ifa_netmask) return;
    const auto word = [](const sockaddr* a) {
      return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr;
    };
    near |= ((word(entry.ifa_addr) ^ other.s_addr) & word(entry.ifa_netmask)) == 0;
  });
  return near;
}

std::vector<std::string> InOrder(const Offer& offer) {
  std::vector<std::string> addresses;
  for (const auto& address : offer.addresses)
    if (*address) addresses.emplace_back(address);
  std::stable_partition(addresses.begin(), addresses.end(), IsNear);
  return addresses;
}

// ---- One connection ----

// Accepts IPv4 and, where the system has it, IPv6.
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

// Null: no connection, and `problem` says why.
Descriptor Connect(const std::string& address, int port, std::string* problem) {
  socklen_t length = 0;
  const sockaddr_storage to = Parse(address, port, &length);
  Descriptor s(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = s.get() < 0 ? errno : 0;
  if (error == 0 && connect(s.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0)
    error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!Ready(s.get(), POLLOUT, Now() + kConnect))
      error = ETIMEDOUT;
    else if (getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  if (error == 0) return s;
  *problem = SystemError(error);
  return Descriptor();
}

// Whether all of it came, or went, in time.
bool ReadAll(int descriptor, void* data, size_t bytes, double end) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = recv(descriptor, static_cast<char*>(data) + at, bytes - at, 0);
    if (n > 0) at += static_cast<size_t>(n);
    const bool wait = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n == 0 || (n < 0 && (!wait || !Ready(descriptor, POLLIN, end)))) return false;
  }
  return true;
}

// A few bytes of a new connection always find room.
bool Write(int descriptor, const void* data, size_t bytes) {
  return send(descriptor, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// What is sent is not held back, and what the system takes of it is about what travels: priorities
// are worth what can still be overtaken, and what lies in a long queue leaves the cache. Between
// neighbours the oldest way to find the rate is the best: the others take the coming and going of
// sums for a slow line, or pace them.
void Tune(int socket, int connections) {
  constexpr double kBytesPerSecond = 2.5e9;  // of the fastest line that one connection is to fill
  // Of the buffer; the system keeps twice as much. All connections together: the first.
  constexpr int kTogether = 128 << 10, kLeast = 64 << 10, kMost = 4 << 20;
  constexpr uint32_t kNear = 2000;  // microseconds
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  tcp_info info = {};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  const uint32_t round_trip = info.tcpi_min_rtt;  // microseconds
  const int buffer = static_cast<int>(std::clamp<double>(
      round_trip * 1e-6 * kBytesPerSecond / 2, std::max(kTogether / connections, kLeast), kMost));
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  const char kPlain[] = "reno";
  if (round_trip <= kNear)
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kPlain, sizeof kPlain - 1);
}

struct Caller {
  Descriptor socket;
  Hello hello = {};
  size_t got = 0;  // bytes of it
};

// ---- All of them ----

class Rendezvous {
 public:
  Rendezvous(Transport& inner, const SocketOptions& options)
      : inner_(inner), options_(options), sockets_(inner.size()) {}

  std::pair<Sockets, std::string> Run() {
    Publish();
    if (!Wanted()) return {Sockets(inner_.size()), ""};
    for (const Offer& offer : offers_)  // known to all
      if (*offer.problem) return {Sockets(inner_.size()), offer.problem};
    std::string problem;
    // Lower ranks are called, higher ones call: rank 0 only listens, so nobody waits in a circle.
    for (int r = 0; r < inner_.rank(); ++r) {
      if (!IsOther(r)) continue;
      if (problem.empty()) problem = Call(r);
      Report(r, problem);
    }
    const std::string others = Answer();
    Outcome mine = {};
    Put(mine.problem, problem.empty() ? others : problem);
    for (const Outcome& outcome : Ask(inner_, Everyone(inner_), mine, options_.wait))
      if (*outcome.problem) return {Sockets(inner_.size()), outcome.problem};
    int connections = 0;
    for (int r = 0; r < inner_.size(); ++r) connections += sockets_[r] >= 0;
    for (int r = 0; r < inner_.size(); ++r)
      if (sockets_[r] >= 0) Tune(sockets_[r], connections);
    return {std::move(sockets_), ""};
  }

 private:
  const Offer& OfferOf(int rank) const { return offers_[static_cast<size_t>(rank)]; }
  bool IsOther(int rank) const {
    return std::strcmp(OfferOf(rank).identity, OfferOf(inner_.rank()).identity) != 0;
  }
  // By all, and there is more than one host.
  bool Wanted() const {
    bool other = false;
    for (int r = 0; r < inner_.size(); ++r) {
      if (!OfferOf(r).wanted || !*OfferOf(r).identity) return false;
      other |= IsOther(r);
    }
    return other;
  }
  std::string Me() const { return fmt::format("rank {} on {}", inner_.rank(), inner_.host()); }

  void Publish() {
    AllowDescriptors(inner_.size());
    Offer offer = {};
    offer.wanted = options_.wanted;
    Put(offer.identity, options_.identity);
    std::random_device random;
    for (uint64_t& word : offer.cookie.words) word = uint64_t{random()} << 32 | random();
    std::vector<std::string> addresses = options_.addresses;
    if (addresses.empty() && options_.wanted) addresses = OwnAddresses();
    for (size_t i = 0; i < addresses.size() && i < kMostAddresses; ++i)
      Put(offer.addresses[i], addresses[i]);
    if (options_.wanted) listener_ = Listen(inner_.size() + 8, &offer.port);
    if (addresses.empty()) Put(offer.problem, Me() + " has no network address");
    if (listener_.get() < 0)
      Put(offer.problem, fmt::format("{} cannot listen: {}", Me(), SystemError()));
    offers_ = Ask(inner_, Everyone(inner_), offer, options_.wait);
  }

  // "", or why this rank cannot be reached.
  std::string Call(int rank) {
    const Offer& offer = OfferOf(rank);
    const Hello hello = {offer.cookie, inner_.rank(), rank};
    std::string tried;
    for (const std::string& address : InOrder(offer)) {
      std::string problem;
      Descriptor s = Connect(address, offer.port, &problem);
      Cookie answer = {};
      if (s.get() >= 0 && Write(s.get(), &hello, sizeof hello) &&
          ReadAll(s.get(), &answer, sizeof answer, Now() + std::min(kAnswer, options_.wait)) &&
          answer == OfferOf(inner_.rank()).cookie) {
        sockets_[rank] = s.Release();
        return "";
      }
      if (problem.empty()) problem = "another program answers there, or none";
      tried +=
          fmt::format("{}{} port {}: {}", tried.empty() ? "" : "; ", address, offer.port, problem);
    }
    return fmt::format("{} cannot reach rank {} ({})", Me(), rank, tried);
  }

  // Whoever calls says through the other transport how it went, so nobody waits in vain.
  void Report(int rank, const std::string& problem) {
    Outcome& outcome = reports_.emplace_back();
    Put(outcome.problem, problem);
    sends_.push_back(inner_.Send(rank, kSetUpTag, &outcome, sizeof outcome));
  }

  std::string Answer() {
    std::vector<int> callers;
    for (int r = inner_.rank() + 1; r < inner_.size(); ++r)
      if (IsOther(r)) callers.push_back(r);
    std::vector<Outcome> outcomes(callers.size());
    std::vector<Transport::Request> reports;
    for (size_t i = 0; i < callers.size(); ++i)
      reports.push_back(inner_.Receive(callers[i], kSetUpTag, &outcomes[i], sizeof(Outcome)));
    const double end = Now() + options_.wait;
    size_t open = reports.size() + sends_.size();
    while (open > 0) {
      Accept();
      open = 0;
      for (auto* requests : {&reports, &sends_})
        for (Transport::Request& request : *requests) {
          if (request != 0 && inner_.Done(request)) request = 0;
          open += request != 0;
        }
      if (open > 0 && Now() > end)
        throw CommError(
            fmt::format("{} waited {:.0f} s for the other ranks to connect", Me(), options_.wait),
            "look at the output of the other ranks, and at the network");
      if (open > 0) Ready(listener_.get(), POLLIN, Now() + 1e-3);
    }
    for (const Outcome& outcome : outcomes)
      if (*outcome.problem) return outcome.problem;
    for (int r : callers)
      if (sockets_[r] < 0) return fmt::format("{} was not called by rank {}", Me(), r);
    return "";
  }

  // Whoever has said hello is answered; strangers may stay silent without anybody waiting for them.
  void Accept() {
    while (true) {
      Descriptor s(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (s.get() < 0) break;
      callers_.push_back({std::move(s)});
    }
    std::erase_if(callers_, [this](Caller& caller) {
      char* const hello = reinterpret_cast<char*>(&caller.hello);
      const ssize_t n =
          recv(caller.socket.get(), hello + caller.got, sizeof caller.hello - caller.got, 0);
      if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EINTR);
      caller.got += static_cast<size_t>(n);
      if (caller.got < sizeof caller.hello) return false;
      Welcome(caller);
      return true;
    });
  }

  void Welcome(Caller& caller) {
    const Hello& hello = caller.hello;
    const bool known = hello.cookie == OfferOf(inner_.rank()).cookie && hello.to == inner_.rank() &&
                       hello.from > hello.to && hello.from < inner_.size() &&
                       sockets_[hello.from] < 0;
    if (!known) return;
    const Cookie& answer = OfferOf(hello.from).cookie;
    if (Write(caller.socket.get(), &answer, sizeof answer))
      sockets_[hello.from] = caller.socket.Release();
  }

  Transport& inner_;
  const SocketOptions& options_;
  Sockets sockets_;
  Descriptor listener_;
  std::vector<Caller> callers_;  // have not said all of their hello yet
  std::vector<Offer> offers_;    // by rank
  std::deque<Outcome> reports_;  // lent until they are sent
  std::vector<Transport::Request> sends_;
};

}  // namespace

Sockets::~Sockets() {
  for (int descriptor : descriptors_)
    if (descriptor >= 0) close(descriptor);
}

std::vector<std::string> OwnAddresses(const std::string& interface) {
  std::vector<std::pair<int64_t, std::string>> found;
  ForInterfaces([&](const ifaddrs& entry) {
    if (interface.empty() || interface == entry.ifa_name)
      found.emplace_back(SpeedOf(entry.ifa_name), Text(*entry.ifa_addr));
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> addresses;
  for (auto& [speed, address] : found) addresses.push_back(std::move(address));
  return addresses;
}

SocketOptions SocketOptionsOfEnvironment() {
  SocketOptions options;
  const char* text = std::getenv("CARAFE_TCP");
  const std::string word = text ? text : "";
  if (word.empty()) {
    std::error_code error;
    for (const char* fabric : {"/sys/class/infiniband", "/sys/class/cxi"})
      options.wanted &=
          !std::filesystem::exists(fabric, error) || std::filesystem::is_empty(fabric, error);
  } else if (word == "off") {
    options.wanted = false;
  } else if (word != "on") {
    options.addresses = OwnAddresses(word);
    std::vector<std::string> names;
    ForInterfaces([&](const ifaddrs& entry) { names.emplace_back(entry.ifa_name); });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (options.addresses.empty())
      throw ConfigError(
          fmt::format("CARAFE_TCP is \"{}\", and no such network interface is up here", word),
          fmt::format("set it to one of {}, or to on or off", fmt::join(names, ", ")));
  }
  return options;
}

size_t SendRoom(int socket) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  if (getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &length) != 0 || bytes < 0) return 0;
  return static_cast<size_t>(bytes);
}

std::pair<Sockets, std::string> ConnectHosts(Transport& inner, const SocketOptions& options) {
  return Rendezvous(inner, options).Run();
}

}  // namespace carafe
