#include "carafe/comm/launch_report.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>

#include "carafe/comm/clock.h"

namespace carafe {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr double kReceiveTimeout = 0.5;  // seconds; a report is written in one call

struct Frame {
  char key[kKeyBytes];
  int32_t ended, rank, code, would_repeat, failing;
  char host[64];
};

std::string RandomKey() {
  std::random_device random;
  std::string key;
  while (key.size() < kKeyBytes) key += fmt::format("{:08x}", random());
  return key;
}

bool Read(int listener, const std::string& key, RankReport* report) {
  const Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  Frame frame = {};
  if (socket.get() < 0 || !ReadAll(socket.get(), &frame, sizeof frame, Now() + kReceiveTimeout) ||
      std::memcmp(frame.key, key.data(), kKeyBytes) != 0)
    return false;
  frame.host[sizeof frame.host - 1] = '\0';
  *report = {frame.ended != 0,        frame.rank,        frame.code, frame.host,
             frame.would_repeat != 0, frame.failing != 0};
  return true;
}

}  // namespace

void ReportToLauncher(const RankReport& report) noexcept {
  try {
    const char* variable = std::getenv(kLaunchVariable);
    if (!variable) return;
    std::istringstream words(variable);
    std::string key, address, problem;
    int port = 0;
    words >> key >> port;
    if (key.size() != kKeyBytes) return;
    Frame frame = {};
    std::memcpy(frame.key, key.data(), kKeyBytes);
    frame.ended = report.ended;
    frame.rank = report.rank;
    frame.code = report.code;
    frame.would_repeat = report.would_repeat;
    frame.failing = report.failing;
    std::memcpy(frame.host, report.host.data(),
                std::min(report.host.size(), sizeof frame.host - 1));
    while (words >> address) {
      const Descriptor socket = Connect(address, port, &problem);
      if (socket.get() >= 0 && WriteAll(socket.get(), &frame, sizeof frame)) return;
    }
  } catch (const std::exception&) {  // the launcher does without
  }
}

LaunchReports::LaunchReports(const std::vector<std::string>& addresses) : key_(RandomKey()) {
  int port = 0;
  listeners_ = ListenOn(addresses, 64, &port);
  if (listeners_.empty()) return;
  variable_ = fmt::format("{} {}", key_, port);
  for (const std::string& address : addresses) variable_ += " " + address;
}

std::vector<RankReport> LaunchReports::Receive(double seconds) {
  std::vector<pollfd> waiting;
  for (const Descriptor& listener : listeners_) waiting.push_back({listener.get(), POLLIN, 0});
  std::vector<RankReport> reports;
  if (poll(waiting.data(), waiting.size(), static_cast<int>(seconds * 1e3)) <= 0) return reports;
  for (const pollfd& ready : waiting) {
    if ((ready.revents & POLLIN) == 0) continue;
    RankReport report;
    if (Read(ready.fd, key_, &report)) reports.push_back(std::move(report));
  }
  return reports;
}

void JobEnd::Add(const RankReport& report, double now) {
  hosts_[report.rank] = report.host;
  if (report.failing || (report.ended && report.code != 0)) {
    failing_.insert(report.rank);
    if (first_bad_ < 0) first_bad_ = report.rank;
  }
  if (!report.ended) return;
  codes_[report.rank] = report.code;
  would_repeat_ = would_repeat_ || report.would_repeat;
  last_ = now;
  // A rank that ended well may be waiting for others that are only slow.
  const double deadline = now + kGrace + (report.code == 0 ? wait_ : 0);
  if (deadline_ < 0) first_ = report;
  deadline_ = deadline_ < 0 ? deadline : std::min(deadline_, deadline);
}

std::string JobEnd::NameOf(int rank) const {
  const auto host = hosts_.find(rank);
  return host == hosts_.end() ? fmt::format("rank {}, which has not started,", rank)
                              : fmt::format("rank {} on {}", rank, host->second);
}

std::string JobEnd::Culprit() const {
  // When one rank dies, the others end by themselves and report it.
  if (hosts_.empty()) return "";
  for (int r = 0; r < Ranks(); ++r) {
    if (!hosts_.contains(r)) return fmt::format("rank {} (not started)", r);
    if (!codes_.contains(r) && !failing_.contains(r)) return NameOf(r);
  }
  return first_bad_ < 0 ? "" : NameOf(first_bad_);
}

int JobEnd::Ranks() const { return ranks_ > 0 ? ranks_ : static_cast<int>(hosts_.size()); }

bool JobEnd::AllEnded() const {
  return !codes_.empty() && static_cast<int>(codes_.size()) >= Ranks();
}

std::optional<int> JobEnd::Code(double now) const {
  if (!AllEnded() || now < last_ + kGrace) return {};
  for (const auto& [rank, code] : codes_)
    if (code != 0) return code;
  return 0;
}

std::string JobEnd::Late(double now) const {
  if (deadline_ < 0 || now < deadline_ || AllEnded()) return "";
  std::string missing;
  for (int r = 0; r < Ranks(); ++r)
    if (!codes_.contains(r)) missing += (missing.empty() ? "" : ", ") + NameOf(r);
  return fmt::format("{} has not ended, although {} has (with code {})", missing,
                     NameOf(first_.rank), first_.code);
}

}  // namespace carafe
