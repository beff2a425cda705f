// Flags that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {

// "a,b" -> a, b; empty parts are left out.
inline std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

inline void CheckPhase(const std::string& phase) {
  if (phase == "TRAIN" || phase == "TEST") return;
  throw ConfigError("--phase is \"" + phase + "\"", "use TRAIN or TEST");
}

struct RunFlags {
  std::string gpu;
  int threads = 0;
  int level = 0;
  std::string stage;

  std::vector<std::string> Stages() const { return SplitList(stage); }
  void Declare(CLI::App& app) {
    app.add_option("--gpu", gpu, "GPUs to use: numbers with commas, all, or auto (by local rank)");
    app.add_option("--threads", threads,
                   "threads per rank; default: cores shared by the host's ranks");
    // A wish for all nets of the process, so it goes where they look.
    app.add_option_function<std::string>(
        "--algorithm",
        [](const std::string& name) { setenv("CARAFE_ALGORITHM", name.c_str(), /*overwrite=*/1); },
        "convolutions: auto (by rule), measure (the fastest here, timed at the start), gemm, "
        "direct, winograd or winograd2x2");
    app.add_option("--level", level, "net level, for layers with min_level or max_level");
    app.add_option("--stage", stage, "net stages, with commas");
  }
};

}  // namespace carafe
