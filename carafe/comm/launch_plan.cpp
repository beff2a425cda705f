#include "carafe/comm/launch_plan.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

std::string InlineHosts(const std::vector<HostSlots>& hosts) {
  std::string list;
  for (const HostSlots& host : hosts)
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.host, host.slots);
  return list;
}

using Arguments = std::vector<std::string>;

void Append(Arguments& to, const Arguments& more) { to.insert(to.end(), more.begin(), more.end()); }

Arguments OpenMpiArguments(const LaunchRequest& request, int ranks) {
  Arguments arguments;
  if (request.as_root) arguments.push_back("--allow-run-as-root");
  Append(arguments, {"-n", fmt::format("{}", ranks)});
  if (!request.hosts.empty() && !request.hostfile.empty())
    Append(arguments, {"--hostfile", request.hostfile});
  if (!request.hosts.empty() && request.hostfile.empty())
    Append(arguments, {"--host", InlineHosts(request.hosts)});
  if (request.threads_per_rank > 0) {
    Append(arguments,
           {"--map-by", fmt::format("slot:PE={}", request.threads_per_rank), "--bind-to", "core"});
  } else {
    // By default two ranks would get one core each, with all their threads on it.
    Append(arguments, {"--bind-to", "none"});
  }
  if (request.hosts.empty() || ranks > TotalSlots(request.hosts))
    arguments.push_back("--oversubscribe");
  // Time for a snapshot after Ctrl-C; a host that is cut off is given up after 10 s (decision 25).
  Append(arguments, {"--mca", "odls_base_sigkill_timeout", "10"});
  if (!request.hosts.empty())
    Append(arguments, {"--mca", "oob_tcp_keepalive_time", "4", "--mca", "oob_tcp_keepalive_intvl",
                       "2", "--mca", "oob_tcp_keepalive_probes", "3"});
  for (const std::string& variable : request.forwarded) Append(arguments, {"-x", variable});
  return arguments;
}

// Hydra binds nothing by itself, starts any number of ranks on a host, and passes on the
// environment.
Arguments MpichArguments(const LaunchRequest& request, int ranks) {
  Arguments arguments;
  if (!request.hosts.empty() && !request.hostfile.empty())
    Append(arguments, {"-f", request.hostfile});
  if (!request.hosts.empty() && request.hostfile.empty())
    Append(arguments, {"-hosts", InlineHosts(request.hosts)});
  if (request.threads_per_rank > 0)
    Append(arguments, {"-bind-to", fmt::format("core:{}", request.threads_per_rank)});
  Append(arguments, {"-n", fmt::format("{}", ranks)});
  return arguments;
}

}  // namespace

std::vector<std::string> LaunchCommand(const LaunchRequest& request) {
  const int ranks = request.ranks > 0 ? request.ranks : TotalSlots(request.hosts);
  if (ranks <= 0)
    throw ConfigError("it is not said how many ranks to start",
                      "give -n N, -H HOST:N,... or --hostfile FILE");
  std::vector<std::string> command = {request.mpirun};
  Append(command, request.mpi == "mpich" ? MpichArguments(request, ranks)
                                         : OpenMpiArguments(request, ranks));
  Append(command, request.command);
  return command;
}

std::string ShellLine(const std::vector<std::string>& command) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  std::string line;
  for (const std::string& word : command) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

}  // namespace carafe
