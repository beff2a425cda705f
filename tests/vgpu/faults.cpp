#include "tests/vgpu/faults.h"

#include <fmt/format.h>

#include <sstream>

#include "tests/vgpu/report.h"

namespace carafe::vgpu {
namespace {

int64_t CountIn(const std::string& entry, size_t at) {
  std::istringstream text(entry.substr(at + 1));
  int64_t n = 0;
  if (!(text >> n) || !text.eof() || n < 1) {
    Die(fmt::format("CARAFE_VGPU_FAULTS: \"{}\" has no number", entry));
  }
  return n;
}

}  // namespace

Faults::Faults(const std::string& table) {
  std::istringstream entries(table);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t at = entry.find('@');
    const std::string name = entry.substr(0, at);
    if (entry == "no_driver") {
      no_driver_ = true;
    } else if (name == "oom" && at != std::string::npos) {
      oom_ = CountIn(entry, at);
    } else if (name == "ecc" && at != std::string::npos) {
      ecc_ = CountIn(entry, at);
    } else if (name == "lost" && at != std::string::npos) {
      lost_ = CountIn(entry, at);
    } else {
      Die(fmt::format("CARAFE_VGPU_FAULTS: there is no failure \"{}\"", entry));
    }
  }
}

cudaError_t Faults::NextOperation() {
  ++operations_;
  if (operations_ == ecc_) return cudaErrorECCUncorrectable;
  return operations_ == lost_ ? cudaErrorDevicesUnavailable : cudaSuccess;
}

}  // namespace carafe::vgpu
