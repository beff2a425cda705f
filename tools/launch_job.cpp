#include "tools/launch_job.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/comm/clock.h"
#include "tools/end_job.h"

namespace carafe {
namespace {

// Used by the handler: all lock-free.
std::atomic<pid_t> mpirun_pid{0};  // 0: between two attempts
std::atomic<bool> mpirun_passes_usr2{false};
std::atomic<int> interrupts{0};
std::atomic<bool> stop_requested{false};

// mpirun is in a process group of its own, so that a Ctrl-C comes here alone. The first one asks
// the ranks to end well: Open MPI's mpirun would send them SIGTERM, and SIGKILL soon after, but
// passes SIGUSR2 on, which our ranks take for the same wish.
void PassOn(int signal) {
  if (signal == SIGINT || signal == SIGTERM || signal == SIGQUIT) stop_requested = true;
  const pid_t mpirun = mpirun_pid;
  if (mpirun == 0) return;
  if (signal == SIGINT && interrupts.fetch_add(1) == 0 && mpirun_passes_usr2) signal = SIGUSR2;
  kill(mpirun, signal);
}

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};

// Holds the signals back while mpirun starts, so that none is lost before there is someone to pass
// it to.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : kSignals) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, &before_);
  }
  ~BlockedSignals() { Restore(); }
  void Restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// In the child process: becomes mpirun.
[[noreturn]] void Become(const std::vector<std::string>& command, pid_t parent) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  // In a group of its own it must not read the terminal.
  if (std::freopen("/dev/null", "r", stdin) == nullptr) _exit(127);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "error: {} cannot be started: {}\n", command[0], std::strerror(errno));
  _exit(127);
}

void Start(const std::vector<std::string>& command) {
  const BlockedSignals blocked;
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    throw ConfigError(fmt::format("no process can be started: {}", std::strerror(errno)),
                      "see the limits of this user (ulimit -u)");
  if (child == 0) {
    blocked.Restore();
    Become(command, parent);
  }
  mpirun_pid = child;
  struct sigaction action = {};
  action.sa_handler = PassOn;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

int Code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// What ranks sent before the end of mpirun was seen.
void AddRest(LaunchReports& reports, JobEnd& job) {
  for (auto rest = reports.Receive(0); !rest.empty(); rest = reports.Receive(0))
    for (const RankReport& report : rest) job.Add(report, Now());
}

// If ranks have ended and mpirun does not, ends it and what is left of the job.
int Await(LaunchReports& reports, JobEnd& job, const std::vector<std::string>& hosts) {
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(mpirun_pid, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return 1;
    for (const RankReport& report : reports.Receive(ended == 0 ? 0.1 : 0)) job.Add(report, Now());
    if (ended == mpirun_pid) {
      AddRest(reports, job);
      return Code(status);
    }
    const std::string late = job.Late(Now());
    const std::optional<int> code = job.Code(Now());
    if (late.empty() && !code) continue;
    if (!late.empty())
      fmt::print(stderr,
                 "error: {}: ending all processes of this job\n  fix: look at that host; then "
                 "resume from the last snapshot\n",
                 late);
    EndJob(mpirun_pid, reports.key(), hosts);
    while (waitpid(mpirun_pid, &status, 0) < 0 && errno == EINTR) continue;
    return code.value_or(1);
  }
}

}  // namespace

JobResult RunJob(const std::vector<std::string>& command, bool passes_usr2, LaunchReports& reports,
                 JobEnd job, const std::vector<std::string>& hosts) {
  mpirun_passes_usr2 = passes_usr2;
  Start(command);
  JobResult result;
  result.code = Await(reports, job, hosts);
  mpirun_pid = 0;
  result.would_repeat = job.would_repeat();
  result.who = job.Culprit();
  return result;
}

bool StopRequested() { return stop_requested; }

}  // namespace carafe
