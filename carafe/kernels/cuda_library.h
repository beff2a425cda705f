// A shared library that is loaded by name and never unloaded. CUDA and virtual-GPU builds only.
#pragma once

#include <string>

namespace carafe {

class CudaLibrary {
 public:
  // `name` is for messages ("cuBLAS"), `file` for dlopen ("libcublas.so.13"): first in the folder
  // that the variable CARAFE_CUDA_LIBRARIES names, if it is set, then where the system looks.
  // Throws ConfigError.
  CudaLibrary(const std::string& name, const std::string& file);

  // Throws ConfigError if the library has no such function.
  template <typename Function>
  void Load(const char* symbol, Function** function) const {
    *function = reinterpret_cast<Function*>(Find(symbol));
  }

 private:
  void* Find(const char* symbol) const;
  const std::string name_, file_;
  void* handle_ = nullptr;
};

}  // namespace carafe
