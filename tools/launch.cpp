// carafe launch: finds an mpirun that fits, starts the ranks with the settings that they need,
// passes on signals and the exit code.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "carafe/base/error.h"
#include "carafe/comm/launch_plan.h"
#include "carafe/comm/mpi_transport.h"
#include "tools/command.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

struct LaunchFlags {
  int ranks = 0;
  std::string hosts, hostfile, mpi, bind = "none";
  int threads = 0;
  bool dry_run = false;
  std::vector<std::string> command;
};

// The program of this name in $PATH, or nothing.
std::optional<std::string> InPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "/usr/bin:/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t colon = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, colon - begin)) / program;
    if (access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file.string();
    begin = colon + 1;
  }
  return {};
}

std::string OutputOf(const std::string& command) {
  std::string output;
  if (FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r")) {
    std::array<char, 4096> buffer;
    while (const size_t bytes = fread(buffer.data(), 1, buffer.size(), pipe))
      output.append(buffer.data(), bytes);
    pclose(pipe);
  }
  return output;
}

// Debian gives each MPI's launcher a name of its own; elsewhere `mpirun` is asked what it is.
std::optional<std::string> FindMpirun(const std::string& mpi) {
  for (const std::string& name :
       {"mpirun." + mpi, std::string(mpi == "mpich" ? "mpiexec.hydra" : "")})
    if (!name.empty() && InPath(name)) return name;
  if (!InPath("mpirun")) return {};
  const std::string version = OutputOf("mpirun --version");
  const bool fits = version.find(mpi == "mpich" ? "HYDRA" : "Open MPI") != std::string::npos;
  return fits ? std::optional<std::string>("mpirun") : std::nullopt;
}

// The MPI to use and its launcher: the one that was asked for, else the first that is whole.
std::pair<std::string, std::string> ChooseMpi(const std::string& asked) {
  if (!asked.empty() && asked != "openmpi" && asked != "mpich")
    throw ConfigError(fmt::format("--mpi is \"{}\"", asked), "use openmpi or mpich");
  std::string lacks;
  for (const std::string mpi : {"openmpi", "mpich"}) {
    if (!asked.empty() && asked != mpi) continue;
    const bool plugin = HasMpiPlugin(mpi);
    const auto mpirun = FindMpirun(mpi);
    if (plugin && mpirun) return {mpi, *mpirun};
    lacks += fmt::format("{}{} has no {}", lacks.empty() ? "" : "; ", mpi,
                         plugin ? "mpirun" : "plug-in of ours");
  }
  throw ConfigError(fmt::format("no MPI can start ranks here: {}", lacks),
                    "install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev, then build "
                    "Carafe again");
}

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

// --threads of the command that is launched, or 0.
int ThreadsOf(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word.starts_with("--threads=")) return std::atoi(word.c_str() + 10);
    if (word == "--threads" && i + 1 < command.size()) return std::atoi(command[i + 1].c_str());
  }
  return 0;
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

pid_t mpirun_pid = 0;
bool mpirun_passes_usr2 = false;
std::atomic<int> interrupts{0};  // lock-free, as a handler needs

// mpirun is in a process group of its own, so that a Ctrl-C comes here alone. The first one asks
// the ranks to end well: Open MPI's mpirun would send them SIGTERM, and SIGKILL soon after, but
// passes SIGUSR2 on, which our ranks take for the same wish.
void PassOn(int signal) {
  if (signal == SIGINT && interrupts.fetch_add(1) == 0 && mpirun_passes_usr2) signal = SIGUSR2;
  kill(mpirun_pid, signal);
}

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};

int RunAndWait(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : kSignals) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);  // none is lost before there is someone to pass it to
  const pid_t parent = getpid();
  mpirun_pid = fork();
  if (mpirun_pid < 0)
    throw ConfigError(fmt::format("no process can be started: {}", std::strerror(errno)),
                      "see the limits of this user (ulimit -u)");
  if (mpirun_pid == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    // In a group of its own it must not read the terminal.
    if (std::freopen("/dev/null", "r", stdin) == nullptr) _exit(127);
    execvp(arguments[0], arguments.data());
    fmt::print(stderr, "error: {} cannot be started: {}\n", command[0], std::strerror(errno));
    _exit(127);
  }
  struct sigaction action = {};
  action.sa_handler = PassOn;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  while (waitpid(mpirun_pid, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int StartRanks(const LaunchFlags& flags) {
  if (flags.bind != "none" && flags.bind != "threads")
    throw ConfigError(fmt::format("--bind is \"{}\"", flags.bind), "use none or threads");
  if (!flags.hosts.empty() && !flags.hostfile.empty())
    throw ConfigError("-H and --hostfile are both given", "name the hosts in one way");
  if (flags.ranks < 0)
    throw ConfigError(fmt::format("-n is {}", flags.ranks), "give a number above 0");
  LaunchRequest request;
  std::tie(request.mpi, request.mpirun) = ChooseMpi(flags.mpi);
  request.ranks = flags.ranks;
  request.command = RankCommand(flags.command);
  if (!flags.hosts.empty()) request.hosts = ParseHostList(flags.hosts);
  if (!flags.hostfile.empty()) request.hosts = ReadHostFile(flags.hostfile);
  if (flags.bind == "threads") {
    request.threads_per_rank = ThreadsOf(flags.command);
    if (request.threads_per_rank <= 0)
      throw ConfigError("--bind=threads, but the command has no --threads",
                        "give the ranks --threads=M, or leave --bind out");
  }
  request.as_root = geteuid() == 0;
  if (!request.hosts.empty()) {
    for (const char* variable :
         {"OMP_NUM_THREADS", "LD_LIBRARY_PATH", "CARAFE_PLUGIN_DIR", "CARAFE_TCP", "CARAFE_SHM"})
      if (std::getenv(variable)) request.forwarded.emplace_back(variable);
  }
  std::unique_ptr<TemporaryFile> file;
  if (!flags.hostfile.empty()) {
    const std::string text = HostFileText(request.hosts, request.mpi);
    request.hostfile = "HOSTFILE";
    if (!flags.dry_run) {
      file = std::make_unique<TemporaryFile>(text);
      request.hostfile = file->path();
    } else {
      fmt::print("# HOSTFILE, in the form of {}:\n", request.mpi);
      for (const HostSlots& host : request.hosts)
        fmt::print("#   {}", HostFileText({host}, request.mpi));
    }
  }
  const std::vector<std::string> command = LaunchCommand(request);
  if (flags.dry_run) {
    fmt::print("{}\n", ShellLine(command));
    return 0;
  }
  fmt::print(stderr, "{}\n", ShellLine(command));
  mpirun_passes_usr2 = request.mpi == "openmpi";
  return RunAndWait(command);
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
       app.add_flag("--dry-run", flags->dry_run, "print the command, do not run it");
       app.add_option("command", flags->command, "after --: the command that each rank runs");
       return [flags] { return StartRanks(*flags); };
     }}};

}  // namespace
}  // namespace carafe
