// Which device and how many threads a worker uses, from flags, files, environment and the launcher.
#pragma once

#include <memory>
#include <string>

#include "carafe/comm/group.h"
#include "carafe/core/stream.h"

namespace carafe {

// --threads; else OMP_NUM_THREADS; else this host's cores shared by its ranks. Warns where the
// launcher has pinned the rank to fewer cores than its share.
int ChooseThreads(int asked, const Group& group, int workers = 1);

// `gpu` is --gpu ("", "0", "0,1", "all", "auto"): given, it must be there. `file_wants_gpu`
// (solver_mode: GPU) without a GPU is a warning, then the CPU.
std::unique_ptr<Stream> MakeStream(const std::string& gpu, bool file_wants_gpu, int threads,
                                   const Group& group);

}  // namespace carafe
