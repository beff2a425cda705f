#include "carafe/comm/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/comm/mpi_transport.h"
#include "carafe/comm/shm_transport.h"
#include "carafe/comm/tcp_transport.h"

namespace carafe {
namespace {

std::optional<int> Number(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return {};
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return {};
  return value;
}

// A launcher, by the variables that it gives to every rank. A launcher counts only if size and rank
// are both there; local ones may be absent.
struct Launcher {
  const char* name;
  const char* mpi;  // "" if the variables do not show it
  const char* size;
  const char* rank;
  const char* local_size;
  const char* local_rank;
};

// The first that fits is taken: an mpirun inside a Slurm job is an mpirun.
constexpr Launcher kLaunchers[] = {
    {"mpirun of Open MPI", "openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun of MPICH", "mpich", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {"mpirun_rsh of MVAPICH2", "", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"jsrun", "", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK"},
    {"flux run", "", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "", "FLUX_TASK_LOCAL_ID"},
    // Set by srun for the tasks of a step only: a batch script by itself is one process.
    {"srun", "", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "", "SLURM_LOCALID"},
};

Launch Read(const Launcher& launcher) {
  Launch launch;
  launch.mpi = launcher.mpi;
  launch.launcher =
      fmt::format("{} ({}={})", launcher.name, launcher.size, std::getenv(launcher.size));
  launch.size = *Number(launcher.size);
  launch.rank = *Number(launcher.rank);
  launch.local_size = Number(launcher.local_size).value_or(1);
  launch.local_rank = Number(launcher.local_rank).value_or(0);
  return launch;
}

Launch ReadEnvironment() {
  for (const Launcher& launcher : kLaunchers) {
    if (!Number(launcher.size) || !Number(launcher.rank)) continue;
    Launch launch = Read(launcher);
    // srun --mpi=pmi2 uses PMI as MPICH's own launcher does, but has other variables for local
    // ranks.
    if (std::string_view(launcher.size) == "PMI_SIZE" && Number("SLURM_PROCID") &&
        !Number("MPI_LOCALNRANKS")) {
      launch.launcher = fmt::format("srun (PMI_SIZE={})", launch.size);
      launch.local_rank = Number("SLURM_LOCALID").value_or(0);
    }
    return launch;
  }
  return {};
}

// Calls `late` on another thread unless it is destroyed in time.
class Watchdog {
 public:
  Watchdog(double seconds, std::function<void()> late)
      : thread_([this, seconds, late = std::move(late)] { Run(seconds, late); }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    stopped_.NotifyOne();
    thread_.join();
  }

 private:
  void Run(double seconds, const std::function<void()>& late) {
    const auto end = After(seconds);
    MutexLock lock(mutex_);
    while (!stop_)
      if (!stopped_.WaitUntil(mutex_, end)) break;
    if (!stop_) late();
  }

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ CARAFE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all other members exist
};

std::unique_ptr<Transport> StartMpi(const Launch& launch, double wait,
                                    const std::function<void(const std::string&)>& stuck) {
  std::optional<Watchdog> watchdog;
  if (stuck)
    watchdog.emplace(wait + std::min(launch.rank, 2), [&launch, wait, &stuck] {
      char host[256] = "";
      gethostname(host, sizeof host - 1);
      stuck(CommError(fmt::format("rank {} on {} waited {:.1f} s for all ranks to start: MPI does "
                                  "not say which of them is not there",
                                  launch.rank, host, wait),
                      "look for a rank that hangs, and at the network between the hosts; raise "
                      "--comm_timeout if they are only slow")
                .what());
    });
  return MakeMpiTransport(launch);
}

}  // namespace

Launch DetectLaunch() {
  Launch launch = ReadEnvironment();
  if (launch.mpi.empty() && std::getenv("PMIX_RANK")) {  // srun --mpi=pmix
    launch.mpi = "openmpi";
    if (launch.launcher.empty()) {
      launch.launcher = "a launcher with PMIx (PMIX_RANK)";
      launch.size = 0;
    }
  }
  if (const char* chosen = std::getenv("CARAFE_MPI"); chosen && *chosen) {
    const std::string_view mpi = chosen;
    if (mpi != "openmpi" && mpi != "mpich")
      throw ConfigError(fmt::format("CARAFE_MPI is \"{}\"", mpi),
                        "set it to openmpi or mpich, or unset it");
    launch.mpi = mpi;
    if (launch.launcher.empty()) {
      launch.launcher = fmt::format("CARAFE_MPI={}", mpi);
      launch.size = 0;
    }
  }
  if (launch.size == 1) launch.mpi = "";  // needs no MPI
  if (launch.size > 1 && launch.mpi.empty())
    throw ConfigError(
        fmt::format("{} started {} processes, but their MPI implementation could not be detected",
                    launch.launcher, launch.size),
        "set CARAFE_MPI to openmpi or mpich; under Slurm, start with srun --mpi=pmix (Open MPI) or "
        "srun --mpi=pmi2 (MPICH)");
  return launch;
}

std::unique_ptr<Group> StartGroup(const CommTimeouts& timeouts,
                                  const std::function<void(const std::string& error)>& stuck) {
  const Launch launch = DetectLaunch();
  if (launch.mpi.empty()) return std::make_unique<Group>();
  auto thread = std::make_unique<CommThread>(
      [&] {
        const char* shm = std::getenv("CARAFE_SHM");
        const bool share = !shm || std::string_view(shm) != "off";
        SocketOptions sockets = SocketOptionsOfEnvironment();
        sockets.wait = timeouts.wait;
        sockets.identity = HostIdentity();
        return WithSharedMemory(WithSockets(StartMpi(launch, timeouts.wait, stuck), sockets),
                                {.wait = timeouts.wait, .identity = share ? HostIdentity() : ""});
      },
      timeouts);
  return std::make_unique<Group>(std::move(thread));
}

}  // namespace carafe
