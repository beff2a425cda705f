// The flags of PMLS-Caffe (Poseidon) and of its parameter server Bösen, which old scripts give to
// `train`: each becomes options of ours, or is checked against the ranks that there are, or is
// noted as without effect, or is refused with a remedy. None is dropped without a word.
#pragma once

#include <string>
#include <vector>

#include "carafe/base/option_table.h"

namespace carafe {

struct PmlsFlag {
  std::string name;
  bool is_switch = false;  // a gflags bool: --svb, --nosvb, --svb=false; its text: true or false
};
const std::vector<PmlsFlag>& PmlsFlags();

// Where the flags are read.
struct PmlsRun {
  int rank = 0;
  int size = 1;                     // ranks
  std::vector<OptionInfo> options;  // of this build: what a flag may become
};

struct PmlsResult {
  GivenOptions given;              // without PMLS-Caffe's flags
  std::vector<std::string> notes;  // for the log, one a flag: what it became
};

// Throws ConfigError for a flag that means nothing here, or contradicts another.
PmlsResult TranslatePmlsFlags(const GivenOptions& given, const PmlsRun& run);

}  // namespace carafe
