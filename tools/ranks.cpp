#include "tools/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "carafe/comm/launcher.h"
#include "carafe/comm/mpi_transport.h"

namespace carafe {
namespace {

// Hydra, when it is asked to end all ranks, drops what they have written and it has not passed on.
constexpr std::chrono::seconds kPassedOn{1};

// The thread that waits inside of MPI cannot be asked to come back.
void EndAtOnce(const std::string& error) {
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
  std::unique_ptr<Group> group = StartGroup(timeouts, EndAtOnce);
  int code = 1;
  bool in_order = true;
  auto kept = std::make_unique<KeptAlive>();
  try {
    code = body(*group, *kept);
  } catch (const std::exception& error) {
    group->Fail(error.what(), [&] {
      fmt::print(stderr, "{}\n", error.what());
      std::fflush(stderr);
    });
    in_order = group->agreed_on_error();
    // Hydra waits for a rank that hangs, whatever the others return; Open MPI's mpirun ends it.
    if (!in_order && !group->AllKnow() && DetectLaunch().mpi == "mpich") {
      std::this_thread::sleep_for(kPassedOn);
      group->Abort("some ranks do not answer: ending them all");
    }
  }
  kept.reset();
  const int rank = group->rank(), size = group->size();
  group.reset();  // takes leave; MPI is finalised where all is in order
  if (size == 1 || !in_order || code == 0) return code;
  // Open MPI's mpirun takes the first rank that ends with another code than 0 for a crash, and then
  // waits twice odls_base_sigkill_timeout for the rest. So rank 0 alone carries the code of the
  // job, and leaves last.
  if (rank != 0) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return code;
}

}  // namespace carafe
