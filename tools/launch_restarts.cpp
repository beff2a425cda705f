#include "tools/launch_restarts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "carafe/comm/clock.h"
#include "carafe/comm/restart_policy.h"
#include "tools/command_words.h"
#include "tools/end_job.h"
#include "tools/launch_resume.h"

namespace carafe {
namespace {

constexpr double kHostsTimeout = 3600, kHostsPause = 5;  // seconds

int RanksOf(const LaunchRequest& request) {
  return request.ranks > 0 ? request.ranks : TotalSlots(request.hosts);
}

// The hosts that answer, and as many ranks as they take.
LaunchRequest OnAnsweringHosts(LaunchRequest request) {
  if (request.hosts.empty()) return request;
  std::vector<std::string> names;
  for (const HostSlots& host : request.hosts) names.push_back(host.host);
  const std::vector<std::string> answering = AnsweringHosts(names);
  const int ranks = RanksOf(request);
  std::erase_if(request.hosts, [&](const HostSlots& host) {
    return std::ranges::find(answering, host.host) == answering.end();
  });
  request.ranks = std::min(ranks, TotalSlots(request.hosts));
  return request;
}

// False if the user ends the wait.
bool Wait(double seconds) {
  const double end = Now() + seconds;
  while (Now() < end && !StopRequested())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return !StopRequested();
}

// Waits, and then for hosts to answer that take enough ranks; nothing if the user ends it or they
// do not answer within an hour.
std::optional<LaunchRequest> NextHosts(const LaunchRequest& all, int min_ranks, double wait) {
  const double deadline = Now() + kHostsTimeout;
  for (bool told = false; Wait(wait); wait = kHostsPause) {
    const LaunchRequest request = OnAnsweringHosts(all);
    if (request.hosts.empty() == all.hosts.empty() && request.ranks >= min_ranks) return request;
    if (Now() > deadline) break;
    if (!told)
      fmt::print(stderr, "waiting for hosts that take {} ranks; those that answer take {}\n",
                 min_ranks, request.ranks);
    told = true;
  }
  return {};
}

}  // namespace

int RunWithRestarts(const LaunchRequest& first, int restarts, int min_ranks,
                    const RunAttemptFunction& run) {
  const TrainingResume resume(first.command);
  RestartPolicy policy(restarts);
  LaunchRequest request = first;
  const int all_ranks = RanksOf(first);
  std::string snapshot;  // the newest when the last attempt ended
  for (int attempt = 1;; ++attempt) {
    const AttemptResult ended = run(request);
    const std::optional<FoundSnapshot> newest = resume.Newest();
    const bool progressed = newest && newest->state != snapshot;
    snapshot = newest ? newest->state : "";
    const int code = ended.result.code;
    const std::optional<double> wait =
        policy.Next({code, StopRequested(), ended.result.would_repeat, progressed});
    if (!wait && policy.reason().empty()) return code;
    const std::string incident = resume.Record(attempt, ended.ranks, code, ended.result.who);
    if (!wait) {
      fmt::print(stderr, "error: {}; no restart: {}\n  fix: see {} and the log\n", incident,
                 policy.reason(), resume.incidents_path());
      return code;
    }
    EndLeftovers(ended.key, ended.hosts);
    fmt::print(stderr, "{}; starting again {} in {:.0f} s\n", incident,
               newest ? fmt::format("from iteration {}", newest->iteration) : "from the start",
               *wait);
    // Only a snapshot or a flag says how large the batch of all ranks is.
    const bool may_shrink = newest || !FlagValue(first.command, "global_batch").empty();
    const int needed = may_shrink && min_ranks > 0 ? min_ranks : all_ranks;
    const std::optional<LaunchRequest> next = NextHosts(first, needed, *wait);
    if (!next) {
      if (!StopRequested())
        fmt::print(stderr,
                   "error: no hosts that take {} ranks have answered for an hour\n  fix: look at "
                   "the hosts, or permit fewer with --min_ranks\n",
                   needed);
      return code;
    }
    request = *next;
    request.command = resume.Command(request.hosts.empty() || request.ranks == all_ranks);
  }
}

}  // namespace carafe
