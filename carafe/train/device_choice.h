// Which device and how many threads a worker uses, from flags, files, environment and the launcher.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/core/stream.h"

namespace carafe {

// --threads; else OMP_NUM_THREADS; else this host's cores shared by its ranks and their workers.
// Warns if the launcher has pinned the rank to fewer cores than its share.
int ChooseThreads(std::optional<int> asked, const Group& group, int workers = 1);

// A rank among those of its host, on which `visible` GPUs can be used.
struct RankOfHost {
  int visible = 0;
  int rank = 0;
  int size = 1;
};

// The numbers of the GPUs of a rank's workers, one each; none: the CPU. `gpu` is --gpu:
//   0,1,2,3        divided among the ranks of the host; fewer than ranks: each rank one, in turn
//   all            the same for all that are visible
//   auto           one for each rank, in turn
//   auto-2, auto-4 GPU r mod 2, r mod 4 for the host's rank r, as in CaffeGPI
//   ""             the CPU or, where the file wants a GPU (solver_mode) and one is visible, auto
// Numbers are not compared with `visible`. Throws ConfigError.
std::vector<int> ChooseGpus(const std::string& gpu, bool file_wants_gpu, const RankOfHost& place);

// The same for programs that use one GPU per rank: with `all` one each, in turn.
std::optional<int> ChooseGpu(const std::string& gpu, bool file_wants_gpu, const RankOfHost& place);

// --gpu must be there. A file that wants a GPU where there is none gets a warning, then the CPU.
std::unique_ptr<Stream> MakeStream(const std::string& gpu, bool file_wants_gpu, int threads,
                                   const Group& group);

struct WorkerStreams {
  int workers = 1;                               // of this rank
  std::vector<std::unique_ptr<Stream>> of_gpus;  // one for each worker; on the CPU worker 0's only
  std::vector<Stream*> others() const;           // all but worker 0's
};
// The streams of a rank's workers: of so many as it has GPUs, or `workers` (--workers).
WorkerStreams MakeWorkerStreams(const std::string& gpu, bool file_wants_gpu, int workers,
                                std::optional<int> threads, const Group& group);

}  // namespace carafe
