#include "tests/vgpu/report.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace carafe::vgpu {

void Die(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "virtual GPU: %s\n", text.c_str());
  std::fflush(stderr);
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  std::abort();
}

}  // namespace carafe::vgpu
