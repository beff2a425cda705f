#include "tests/vgpu/ignore.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace carafe::vgpu {

bool IsIgnored(const void* address) {
  static const uintptr_t ignored = [] {
    const char* text = std::getenv("CARAFE_VGPU_IGNORE");
    return text == nullptr ? uintptr_t{0} : std::strtoull(text, nullptr, 16);
  }();
  Dl_info info;
  if (ignored == 0 || dladdr(address, &info) == 0) return false;
  if (std::strstr(info.dli_fname, "libcarafe.so") == nullptr) return false;  // a test's own call
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase) ==
         ignored;
}

}  // namespace carafe::vgpu
