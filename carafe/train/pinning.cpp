#include "carafe/train/pinning.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Every thread of this process. Returns what went wrong, or "".
std::string PinThreads(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const pid_t thread = std::stoi(task.path().filename().string());
    if (sched_setaffinity(thread, sizeof set, &set) == 0 || errno == ESRCH) continue;  // it ended
    return std::strerror(errno);
  }
  return error ? error.message() : "";
}

std::map<std::string, std::vector<size_t>> RanksByHost(const std::vector<RankCores>& ranks) {
  std::map<std::string, std::vector<size_t>> hosts;
  for (size_t r = 0; r < ranks.size(); ++r) hosts[ranks[r].host].push_back(r);
  return hosts;
}

bool AllHaveTheSame(const std::vector<RankCores>& ranks, const std::vector<size_t>& members) {
  return std::ranges::all_of(members,
                             [&](size_t r) { return ranks[r].cores == ranks[members[0]].cores; });
}

}  // namespace

std::string CoreList(const std::vector<int>& cores) {
  std::string text;
  for (size_t begin = 0; begin < cores.size();) {
    size_t last = begin;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += begin == last ? fmt::format("{}", cores[begin])
                          : fmt::format("{}-{}", cores[begin], cores[last]);
    begin = last + 1;
  }
  return text;
}

std::vector<std::vector<int>> SharesOfCores(const std::vector<RankCores>& ranks) {
  std::vector<std::vector<int>> shares;
  for (const RankCores& rank : ranks) shares.push_back(rank.cores);
  for (const auto& [host, members] : RanksByHost(ranks)) {
    if (!AllHaveTheSame(ranks, members)) continue;
    const std::vector<int>& cores = ranks[members[0]].cores;
    if (cores.empty()) continue;  // unknown
    for (size_t l = 0; l < members.size(); ++l) {
      size_t begin = l * cores.size() / members.size();
      size_t end = (l + 1) * cores.size() / members.size();
      if (cores.size() < members.size()) {
        begin = l % cores.size();
        end = begin + 1;
      }
      shares[members[l]].assign(cores.begin() + static_cast<std::ptrdiff_t>(begin),
                                cores.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return shares;
}

std::string DescribePins(const std::vector<RankCores>& ranks,
                         const std::vector<std::vector<int>>& shares) {
  std::string text;
  size_t shared_out = 0;
  for (const auto& [host, members] : RanksByHost(ranks)) {
    const std::vector<int>& cores = ranks[members[0]].cores;
    const auto other = std::ranges::find_if(
        members, [&](size_t r) { return ranks[r].cores != ranks[members[0]].cores; });
    if (other != members.end()) {
      text += fmt::format(
          "; on {} nothing is changed, for the launcher has given its ranks cores of their own "
          "(rank {}: {}, rank {}: {})",
          host, members[0], CoreList(cores), *other, CoreList(ranks[*other].cores));
    } else if (cores.empty()) {
      text += fmt::format("; on {} nothing is changed, for its cores are not known", host);
    } else {
      shared_out += members.size();
    }
  }
  return fmt::format(
      "--pin: {} of {} ranks are pinned to their shares of the cores{}{}", shared_out, ranks.size(),
      shared_out == 0 || shares[0] == ranks[0].cores
          ? ""
          : fmt::format(" (rank 0: {} of {})", CoreList(shares[0]), CoreList(ranks[0].cores)),
      text);
}

void PinRanks(Group& group) {
  std::vector<RankCores> ranks;
  const nlohmann::json mine = AllowedCores();
  for (const std::string& text : group.AllGather(mine.dump(), "the cores of each rank")) {
    ranks.push_back({.host = group.host(static_cast<int>(ranks.size())),
                     .cores = nlohmann::json::parse(text).get<std::vector<int>>()});
  }
  const std::vector<std::vector<int>> shares = SharesOfCores(ranks);
  const size_t me = static_cast<size_t>(group.rank());
  group.Together("the ranks to be pinned", [&] {
    if (shares[me] == ranks[me].cores) return;
    const std::string refused = PinThreads(shares[me]);
    if (refused.empty()) return;
    throw ConfigError(fmt::format("--pin: this process cannot be pinned to cores {}: {}",
                                  CoreList(shares[me]), refused),
                      "omit --pin, or let the launcher pin the ranks");
  });
  if (group.rank() == 0) LogInfo("{}", DescribePins(ranks, shares));
}

}  // namespace carafe
