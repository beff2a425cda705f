#include "tools/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "carafe/base/error.h"
#include "carafe/comm/launch_report.h"
#include "carafe/comm/launcher.h"
#include "carafe/comm/mpi_transport.h"

namespace carafe {
namespace {

// Hydra, when it is asked to end all ranks, drops what they have written and it has not passed on.
constexpr std::chrono::seconds kPassedOn{1};

// To `carafe launch`, if that started this process. Rank and host are added.
void Report(RankReport report) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  report.host = host;
  report.rank = DetectLaunch().rank;
  ReportToLauncher(report);
}

// The thread that waits inside MPI cannot be interrupted.
void EndAtOnce(const std::string& error) {
  Report({.ended = true, .code = 1});
  fmt::print(stderr, "{}\n", error);
  std::fflush(stderr);
  std::this_thread::sleep_for(kPassedOn);
  try {
    AbortStart(DetectLaunch());
  } catch (const std::exception&) {  // there is nobody to ask
  }
  _exit(1);
}

}  // namespace

int RunOnRanks(const CommTimeouts& timeouts, const std::function<int(Group&, KeptAlive&)>& body) {
  Report({});
  std::unique_ptr<Group> group = StartGroup(timeouts, EndAtOnce);
  int code = 1;
  bool in_order = true, would_repeat = false;
  auto kept = std::make_unique<KeptAlive>();
  try {
    code = body(*group, *kept);
  } catch (const std::exception& error) {
    Report({.failing = true});  // at once: mpirun may kill this process soon
    group->Fail(error.what(), [&] {
      fmt::print(stderr, "{}\n", error.what());
      std::fflush(stderr);
    });
    in_order = group->failed_together();
    would_repeat = dynamic_cast<const ConfigError*>(&error) != nullptr;
    // Hydra waits for a rank that hangs, whatever the others return; Open MPI's mpirun ends it.
    if (!in_order && !group->AllKnow() && DetectLaunch().mpi == "mpich") {
      std::this_thread::sleep_for(kPassedOn);
      group->Abort("some ranks do not answer: ending them all");
    }
  }
  Report({.ended = true,
          .code = code,
          .would_repeat = would_repeat});  // before what may wait for other ranks
  kept.reset();
  const int rank = group->rank(), size = group->size();
  group.reset();  // says goodbye; MPI is finalised unless a rank has failed
  if (size == 1 || !in_order || code == 0) return code;
  // Open MPI's mpirun takes the first rank that ends with another code than 0 for a crash, and then
  // waits twice odls_base_sigkill_timeout for the rest. So rank 0 alone carries the code of the
  // job, and leaves last.
  if (rank != 0) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return code;
}

}  // namespace carafe
