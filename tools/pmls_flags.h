// Flags of PMLS-Caffe on the command line of `train`; what they mean: train/pmls_flags.h.
#pragma once

#include <CLI/CLI.hpp>

#include "carafe/base/option_table.h"

namespace carafe {

// Accepts them in every form of gflags. They are not in --help: new command lines use our own.
// `given` outlives `app`.
void DeclarePmlsFlags(CLI::App& app, GivenOptions* given);

}  // namespace carafe
