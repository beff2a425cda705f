// Flags that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace carafe {

struct RunFlags {
  std::string gpu;
  int threads = 0;
  int level = 0;
  std::string stage;

  std::vector<std::string> Stages() const {
    std::vector<std::string> stages;
    for (size_t begin = 0; begin < stage.size();) {
      const size_t comma = std::min(stage.find(',', begin), stage.size());
      if (comma > begin) stages.push_back(stage.substr(begin, comma - begin));
      begin = comma + 1;
    }
    return stages;
  }
  void Declare(CLI::App& app) {
    app.add_option("--gpu", gpu, "GPUs to use: numbers with commas, all, or auto (by local rank)");
    app.add_option("--threads", threads,
                   "threads per rank; default: cores shared by the host's ranks");
    app.add_option("--level", level, "net level, for layers with min_level or max_level");
    app.add_option("--stage", stage, "net stages, with commas");
  }
};

}  // namespace carafe
