#include "tools/end_job.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "carafe/comm/launch_plan.h"

namespace carafe {
namespace {

constexpr int kPatience = 20;  // tenths of a second for mpirun to end its ranks

// mpirun is our child: it is not waited for here, so its number stays its own.
bool HasEnded(pid_t child) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

// The shell that runs this has the key in its arguments, not in its environment.
std::string KillScript(const std::string& key) {
  return fmt::format(
      "for p in /proc/[0-9]*; do grep -qs {} $p/environ && [ ${{p#/proc/}} != {} ] && kill -9 "
      "${{p#/proc/}}; done",
      key, getpid());
}

std::string RemoteShell() {
  for (const char* variable : {"OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER_EXEC"})
    if (const char* agent = std::getenv(variable); agent && *agent) return agent;
  return "ssh -o BatchMode=yes -o ConnectTimeout=4";
}

}  // namespace

void EndJob(pid_t mpirun, const std::string& key, const std::vector<std::string>& hosts) {
  kill(mpirun, SIGTERM);
  kill(mpirun, SIGCONT);
  for (int i = 0; i < kPatience && !HasEnded(mpirun); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(-mpirun, SIGKILL);
  EndLeftovers(key, hosts);
}

void EndLeftovers(const std::string& key, const std::vector<std::string>& hosts) {
  const std::string script = KillScript(key);
  std::string line = ShellLine({"sh", "-c", script}) + " &";
  for (const std::string& host : hosts)
    line += fmt::format(" timeout 5 {} {} {} </dev/null &", RemoteShell(), ShellLine({host}),
                        ShellLine({script}));
  if (std::system((line + " wait").c_str()) != 0) return;  // a host that does not answer
}

std::vector<std::string> AnsweringHosts(const std::vector<std::string>& hosts) {
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  std::string line;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == own || hosts[i] == "localhost" || hosts[i].starts_with("127."))
      line += fmt::format("echo {}; ", i);
    else
      line += fmt::format("(timeout 10 {} {} true </dev/null >/dev/null 2>&1 && echo {}) & ",
                          RemoteShell(), ShellLine({hosts[i]}), i);
  }
  std::set<size_t> numbers;
  if (FILE* pipe = popen((line + "wait").c_str(), "r")) {
    size_t number = 0;
    while (std::fscanf(pipe, "%zu", &number) == 1) numbers.insert(number);
    pclose(pipe);
  }
  std::vector<std::string> answering;
  for (const size_t number : numbers)
    if (number < hosts.size()) answering.push_back(hosts[number]);
  return answering;
}

}  // namespace carafe
