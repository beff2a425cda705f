#include "carafe/comm/tcp_sockets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
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
#include <random>

#include "carafe/base/error.h"
#include "carafe/comm/clock.h"
#include "carafe/comm/handshake.h"
#include "carafe/comm/network_interfaces.h"
#include "carafe/comm/tcp_connection.h"

namespace carafe {
namespace {

constexpr int kMaxAddresses = 8;
constexpr double kAnswerTimeout = 20;  // seconds for a rank that may itself be connecting

struct Cookie {
  uint64_t words[2];
  bool operator==(const Cookie&) const = default;
};

// What a rank sends to all others.
struct Offer {
  int32_t wanted;
  int32_t port;
  Cookie cookie;  // known only to ranks that got this offer
  char identity[512];
  char addresses[kMaxAddresses][48];
  char problem[256];  // "": it accepts connections
};

// The first bytes of every connection; the answer is the cookie of the rank that connects. An
// address may lead to another machine than the one that published it.
struct Hello {
  Cookie cookie;  // of the rank that accepts
  int32_t from;
  int32_t to;
};

struct Outcome {
  char problem[256];  // "": none
};

void AllowDescriptors(int more) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(more) + 512;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);  // if that is not allowed, sockets fail with a reason
}

std::vector<std::string> InOrder(const Offer& offer) {
  std::vector<std::string> addresses;
  for (const auto& address : offer.addresses)
    if (*address) addresses.emplace_back(address);
  std::stable_partition(addresses.begin(), addresses.end(), InOwnNetwork);
  return addresses;
}

struct Caller {  // a connection that was accepted
  Descriptor socket;
  Hello hello = {};
  size_t received = 0;  // bytes of the hello
};

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
    // Each rank connects to all lower ones and accepts all higher ones: rank 0 only accepts, so the
    // waits form no circle.
    for (int r = 0; r < inner_.rank(); ++r) {
      if (!IsOther(r)) continue;
      if (problem.empty()) problem = ConnectTo(r);
      Report(r, problem);
    }
    const std::string others = AcceptAll();
    Outcome mine = {};
    CopyText(mine.problem, problem.empty() ? others : problem);
    for (const Outcome& outcome : Handshake(inner_, AllRanks(inner_), mine, options_.wait))
      if (*outcome.problem) return {Sockets(inner_.size()), outcome.problem};
    int connections = 0;
    for (int r = 0; r < inner_.size(); ++r) connections += sockets_[r] >= 0;
    for (int r = 0; r < inner_.size(); ++r)
      if (sockets_[r] >= 0) TuneSocket(sockets_[r], connections);
    return {std::move(sockets_), ""};
  }

 private:
  const Offer& OfferOf(int rank) const { return offers_[static_cast<size_t>(rank)]; }
  bool IsOther(int rank) const {
    return std::strcmp(OfferOf(rank).identity, OfferOf(inner_.rank()).identity) != 0;
  }
  // All ranks want sockets, and there is more than one host.
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
    CopyText(offer.identity, options_.identity);
    std::random_device random;
    for (uint64_t& word : offer.cookie.words) word = uint64_t{random()} << 32 | random();
    std::vector<std::string> addresses = options_.addresses;
    if (addresses.empty() && options_.wanted) addresses = OwnAddresses();
    for (size_t i = 0; i < addresses.size() && i < kMaxAddresses; ++i)
      CopyText(offer.addresses[i], addresses[i]);
    if (options_.wanted) Listen(&offer.port);
    if (addresses.empty()) CopyText(offer.problem, Me() + " has no network address");
    if (listeners_.empty())
      CopyText(offer.problem, fmt::format("{} cannot listen: {}", Me(), SystemError(errno)));
    offers_ = Handshake(inner_, AllRanks(inner_), offer, options_.wait);
  }

  // Where an interface was chosen, nobody can connect through another one.
  void Listen(int* port) {
    const int backlog = inner_.size() + 8;
    if (!options_.addresses.empty()) {
      listeners_ = ListenOn(options_.addresses, backlog, port);
    } else if (Descriptor any = carafe::Listen(backlog, port); any.get() >= 0) {
      listeners_.push_back(std::move(any));
    }
  }

  // Returns "", or why the rank cannot be reached.
  std::string ConnectTo(int rank) {
    const Offer& offer = OfferOf(rank);
    const Hello hello = {offer.cookie, inner_.rank(), rank};
    std::string tried;
    for (const std::string& address : InOrder(offer)) {
      std::string problem;
      Descriptor s = Connect(address, offer.port, &problem);
      Cookie answer = {};
      if (s.get() >= 0 && WriteAll(s.get(), &hello, sizeof hello) &&
          ReadAll(s.get(), &answer, sizeof answer,
                  Now() + std::min(kAnswerTimeout, options_.wait)) &&
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

  // The rank that connects reports the result through the inner transport, so the other one does
  // not wait in vain.
  void Report(int rank, const std::string& problem) {
    Outcome& outcome = reports_.emplace_back();
    CopyText(outcome.problem, problem);
    sends_.push_back(inner_.Send(rank, kHandshakeTag, &outcome, sizeof outcome));
  }

  std::string AcceptAll() {
    std::vector<int> callers;
    for (int r = inner_.rank() + 1; r < inner_.size(); ++r)
      if (IsOther(r)) callers.push_back(r);
    std::vector<Outcome> outcomes(callers.size());
    std::vector<Transport::Request> reports;
    for (size_t i = 0; i < callers.size(); ++i)
      reports.push_back(inner_.Receive(callers[i], kHandshakeTag, &outcomes[i], sizeof(Outcome)));
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
      if (open > 0) WaitForEvents(listeners_.front().get(), POLLIN, Now() + 1e-3);
    }
    for (const Outcome& outcome : outcomes)
      if (*outcome.problem) return outcome.problem;
    for (int r : callers)
      if (sockets_[r] < 0) return fmt::format("{} got no connection from rank {}", Me(), r);
    return "";
  }

  // Answers connections whose hello has come. One that sends nothing delays no other.
  void Accept() {
    for (const Descriptor& listener : listeners_) {
      while (true) {
        Descriptor s(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (s.get() < 0) break;
        callers_.push_back({std::move(s)});
      }
    }
    std::erase_if(callers_, [this](Caller& caller) {
      char* const hello = reinterpret_cast<char*>(&caller.hello);
      const ssize_t n = recv(caller.socket.get(), hello + caller.received,
                             sizeof caller.hello - caller.received, 0);
      if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EINTR);
      caller.received += static_cast<size_t>(n);
      if (caller.received < sizeof caller.hello) return false;
      Complete(caller);
      return true;
    });
  }

  void Complete(Caller& caller) {
    const Hello& hello = caller.hello;
    const bool known = hello.cookie == OfferOf(inner_.rank()).cookie && hello.to == inner_.rank() &&
                       hello.from > hello.to && hello.from < inner_.size() &&
                       sockets_[hello.from] < 0;
    if (!known) return;
    const Cookie& answer = OfferOf(hello.from).cookie;
    if (WriteAll(caller.socket.get(), &answer, sizeof answer))
      sockets_[hello.from] = caller.socket.Release();
  }

  Transport& inner_;
  const SocketOptions& options_;
  Sockets sockets_;
  std::vector<Descriptor> listeners_;  // one, or one for each chosen address
  std::vector<Caller> callers_;        // whose hello has not come completely
  std::vector<Offer> offers_;          // by rank
  std::deque<Outcome> reports_;        // used by the inner transport until they are sent
  std::vector<Transport::Request> sends_;
};

}  // namespace

Sockets::~Sockets() {
  for (int descriptor : descriptors_)
    if (descriptor >= 0) close(descriptor);
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
    if (options.addresses.empty())
      throw ConfigError(
          fmt::format("CARAFE_TCP is \"{}\", and no such network interface is up here", word),
          fmt::format("set it to one of {}, or to on or off", fmt::join(InterfaceNames(), ", ")));
  }
  return options;
}

std::pair<Sockets, std::string> ConnectHosts(Transport& inner, const SocketOptions& options) {
  return Rendezvous(inner, options).Run();
}

}  // namespace carafe
