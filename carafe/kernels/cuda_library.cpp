#include "carafe/kernels/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr const char* kFix =
    "install the libraries of CUDA 13, put their folder into LD_LIBRARY_PATH or "
    "CARAFE_CUDA_LIBRARIES, or omit --gpu";

}  // namespace

CudaLibrary::CudaLibrary(const std::string& name, const std::string& file)
    : name_(name), file_(file) {
  const char* folder = std::getenv("CARAFE_CUDA_LIBRARIES");
  if (folder != nullptr && *folder != '\0') {
    handle_ = dlopen(fmt::format("{}/{}", folder, file).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle_ == nullptr) handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    throw ConfigError(fmt::format("{} cannot be loaded: {}", name_, dlerror()), kFix);
  }
}

void* CudaLibrary::Find(const char* symbol) const {
  void* found = dlsym(handle_, symbol);
  if (found == nullptr) {
    throw ConfigError(fmt::format("{} has no function {}", file_, symbol), kFix);
  }
  return found;
}

}  // namespace carafe
