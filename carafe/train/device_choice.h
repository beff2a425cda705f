// Which device and how many threads a worker uses, from flags, files, environment and the launcher.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "carafe/comm/group.h"
#include "carafe/core/stream.h"

namespace carafe {

// --threads; else OMP_NUM_THREADS; else this host's cores shared by its ranks. Warns where the
// launcher has pinned the rank to fewer cores than its share.
int ChooseThreads(int asked, const Group& group, int workers = 1);

// The number of the GPU for a rank of a host on which `visible` of them can be used: its own where
// there are enough, else in turn. Nothing: the CPU. A number that --gpu names is taken as it is, be
// it there or not. Throws ConfigError.
std::optional<int> ChooseGpu(const std::string& gpu, bool file_wants_gpu, int visible,
                             int local_rank, int local_size);

// `gpu` is --gpu ("", "0", "0,1", "all", "auto"): given, it must be there. `file_wants_gpu`
// (solver_mode: GPU) without a GPU is a warning, then the CPU.
std::unique_ptr<Stream> MakeStream(const std::string& gpu, bool file_wants_gpu, int threads,
                                   const Group& group);

}  // namespace carafe
