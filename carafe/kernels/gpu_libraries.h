// Libraries of NVIDIA that are loaded when a GPU first needs them, so that one build serves hosts
// with and without GPUs.
#pragma once

#include <string>
#include <vector>

namespace carafe {

struct GpuLibrary {
  std::string name;     // "cuBLAS"
  std::string version;  // "13.1.0"; empty if it cannot be used
  std::string problem;  // why it cannot
};

// Tries to load each; none in a build without CUDA.
std::vector<GpuLibrary> GpuLibraries();

}  // namespace carafe
