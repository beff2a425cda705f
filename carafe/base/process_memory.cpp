#include "carafe/base/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace carafe {

int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kilobytes = 0;
    if (key == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace carafe
