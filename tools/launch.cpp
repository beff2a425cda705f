// carafe launch: finds an mpirun that fits, starts the ranks with the settings that they need,
// passes on signals and the exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <tuple>

#include "carafe/base/error.h"
#include "carafe/comm/launch_plan.h"
#include "carafe/comm/launch_report.h"
#include "carafe/comm/network_interfaces.h"
#include "carafe/comm/tcp_sockets.h"
#include "carafe/train/options.h"
#include "tools/command.h"
#include "tools/command_words.h"
#include "tools/launch_job.h"
#include "tools/launch_restarts.h"
#include "tools/mpi_choice.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

struct LaunchFlags {
  int ranks = 0;
  std::string hosts, hostfile, mpi, bind = "none";
  bool dry_run = false;
  int restarts = 0, min_ranks = 0;
  std::vector<std::string> command;
};

// A rank's program and arguments: our own program for our own commands, else what was written.
std::vector<std::string> RankCommand(const std::vector<std::string>& words) {
  if (words.empty())
    throw ConfigError("it is not said what to launch",
                      "end with -- and a command, e.g. -- train --solver=solver.prototxt");
  if (CommandRegistry::Instance().Find(words[0]) == nullptr) return words;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::vector<std::string> command = {error ? "carafe" : self.string()};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// How long the launched ranks wait for each other.
double CommTimeoutOf(const std::vector<std::string>& command) {
  const double given = std::atof(FlagValue(command, "comm_timeout").c_str());
  return given > 0 ? given : TrainOptions().comm_timeout;
}

// Where the ranks reach this process.
std::vector<std::string> ReportAddresses(const std::vector<HostSlots>& hosts) {
  if (hosts.empty()) return {"127.0.0.1"};
  const SocketOptions sockets = SocketOptionsOfEnvironment();
  return sockets.addresses.empty() ? OwnAddresses() : sockets.addresses;
}

// A file that is gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    const char* folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/carafe_hosts_XXXXXX", folder && *folder ? folder : "/tmp");
    const int file = mkstemp(path_.data());
    const bool written = file >= 0 && write(file, text.data(), text.size()) == ssize_t(text.size());
    if (file >= 0) close(file);
    if (!written)
      throw ConfigError(fmt::format("{} cannot be written: {}", path_, std::strerror(errno)),
                        "set TMPDIR to a folder with room, or name the hosts with -H");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The variables that ranks on other hosts need, among them those that stand for options.
std::vector<std::string> ForwardedVariables() {
  std::vector<std::string> variables = {"OMP_NUM_THREADS", "LD_LIBRARY_PATH", "CARAFE_PLUGIN_DIR",
                                        "CARAFE_TCP",      "CARAFE_SHM",      kLaunchVariable};
  for (const OptionInfo& info : RunTable().infos()) {
    if (!info.environment.empty()) variables.push_back(info.environment);
  }
  return variables;
}

// What one attempt runs, and on which hosts.
struct Attempt {
  LaunchRequest request;
  std::unique_ptr<LaunchReports> reports;
  std::unique_ptr<TemporaryFile> hostfile;

  std::vector<std::string> HostNames() const {
    std::vector<std::string> names;
    for (const HostSlots& host : request.hosts) names.push_back(host.host);
    return names;
  }
  int Ranks() const { return request.ranks > 0 ? request.ranks : TotalSlots(request.hosts); }
};

void CheckFlags(const LaunchFlags& flags) {
  if (flags.bind != "none" && flags.bind != "threads")
    throw ConfigError(fmt::format("--bind is \"{}\"", flags.bind), "use none or threads");
  if (!flags.hosts.empty() && !flags.hostfile.empty())
    throw ConfigError("-H and --hostfile are both given", "name the hosts in one way");
  if (flags.ranks < 0) throw ConfigError(fmt::format("-n is {}", flags.ranks), "use 1 or more");
  if (flags.restarts < 0)
    throw ConfigError(fmt::format("--restarts is {}", flags.restarts), "use 0 or more");
  if (flags.min_ranks < 0)
    throw ConfigError(fmt::format("--min_ranks is {}", flags.min_ranks), "use 1 or more");
  if (flags.min_ranks > 0 && flags.restarts == 0)
    throw ConfigError("--min_ranks is for restarts, and there are none", "add --restarts=N");
}

LaunchRequest MakeRequest(const LaunchFlags& flags) {
  LaunchRequest request;
  std::tie(request.mpi, request.mpirun) = ChooseMpi(flags.mpi);
  request.ranks = flags.ranks;
  request.command = flags.command;
  if (!flags.hosts.empty()) request.hosts = ParseHostList(flags.hosts);
  if (!flags.hostfile.empty()) request.hosts = ReadHostFile(flags.hostfile);
  if (flags.bind == "threads") {
    request.threads_per_rank = std::atoi(FlagValue(flags.command, "threads").c_str());
    if (request.threads_per_rank <= 0)
      throw ConfigError("--bind=threads, but the command has no --threads",
                        "give the ranks --threads=M, or omit --bind");
  }
  request.as_root = geteuid() == 0;
  return request;
}

// Opens what the ranks report to, and writes the host file.
Attempt Prepare(const LaunchFlags& flags, LaunchRequest request) {
  Attempt attempt;
  attempt.reports = std::make_unique<LaunchReports>(ReportAddresses(request.hosts));
  if (!flags.dry_run) setenv(kLaunchVariable, attempt.reports->variable().c_str(), 1);
  if (!request.hosts.empty()) {
    for (const std::string& variable : ForwardedVariables())
      if (std::getenv(variable.c_str())) request.forwarded.push_back(variable);
  }
  if (!flags.hostfile.empty()) {
    request.hostfile = "HOSTFILE";
    if (!flags.dry_run) {
      attempt.hostfile = std::make_unique<TemporaryFile>(HostFileText(request.hosts, request.mpi));
      request.hostfile = attempt.hostfile->path();
    }
  }
  attempt.request = std::move(request);
  return attempt;
}

void PrintDryRun(const Attempt& attempt) {
  if (!attempt.request.hostfile.empty()) {
    fmt::print("# HOSTFILE, in the form of {}:\n", attempt.request.mpi);
    for (const HostSlots& host : attempt.request.hosts)
      fmt::print("#   {}", HostFileText({host}, attempt.request.mpi));
  }
  fmt::print("{}\n", ShellLine(LaunchCommand(attempt.request)));
}

JobResult Run(const LaunchFlags& flags, const Attempt& attempt) {
  const std::vector<std::string> command = LaunchCommand(attempt.request);
  fmt::print(stderr, "{}\n", ShellLine(command));
  return RunJob(command, attempt.request.mpi == "openmpi", *attempt.reports,
                JobEnd(attempt.Ranks(), CommTimeoutOf(flags.command)), attempt.HostNames());
}

// A request whose command is written as the user writes it.
AttemptResult RunAttempt(const LaunchFlags& flags, LaunchRequest request) {
  request.command = RankCommand(request.command);
  const Attempt attempt = Prepare(flags, std::move(request));
  return {Run(flags, attempt), attempt.reports->key(), attempt.HostNames(), attempt.Ranks()};
}

int StartRanks(const LaunchFlags& flags) {
  CheckFlags(flags);
  LaunchRequest request = MakeRequest(flags);
  if (flags.dry_run) {
    request.command = RankCommand(flags.command);
    PrintDryRun(Prepare(flags, std::move(request)));
    return 0;
  }
  const auto run = [&](LaunchRequest r) { return RunAttempt(flags, std::move(r)); };
  if (flags.restarts == 0) return run(request).result.code;
  return RunWithRestarts(request, flags.restarts, flags.min_ranks, run);
}

const RegisterCommand kRegistered{
    {.name = "launch",
     .summary = "Start ranks on this machine or on others, through the mpirun that fits.",
     .examples =
         "  carafe launch -n 4 -- train --solver=solver.prototxt\n"
         "  carafe launch -H node1:2,node2:2 -- train --solver=solver.prototxt --threads=8\n"
         "  carafe launch --hostfile hosts --bind=threads -- train --solver=s.prototxt "
         "--threads=8\n"
         "  carafe launch -n 2 --mpi=mpich --dry-run -- test --model=m.prototxt "
         "--weights=w.caffemodel\n"
         "  carafe launch --hostfile hosts --restarts=5 --min_ranks=6 -- train "
         "--solver=solver.prototxt\n"
         "A host file has lines \"host\", \"host:n\", \"host slots=n\" or \"id address port\".\n"
         "Ctrl-C ends the iteration and writes the last snapshot; a second one ends at once.",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<LaunchFlags>();
       app.add_option("-n,--np", flags->ranks, "ranks; default: the slots of the hosts");
       app.add_option("-H,--host", flags->hosts, "hosts with their ranks: a:2,b:2");
       app.add_option("--hostfile", flags->hostfile, "a file of hosts, one per line");
       app.add_option("--mpi", flags->mpi, "openmpi or mpich; default: the first that is whole");
       app.add_option("--bind", flags->bind,
                      "none, or threads: as many cores for a rank as its --threads")
           ->capture_default_str();
       app.add_option("--restarts", flags->restarts,
                      "times that a training that fails is started again, from its newest snapshot")
           ->capture_default_str();
       app.add_option("--min_ranks", flags->min_ranks,
                      "restart on the hosts that answer if they take so many ranks; default: all");
       app.add_flag("--dry-run", flags->dry_run, "print the command, do not run it");
       app.add_option("command", flags->command, "after --: the command that each rank runs");
       return [flags] { return StartRanks(*flags); };
     }}};

}  // namespace
}  // namespace carafe
