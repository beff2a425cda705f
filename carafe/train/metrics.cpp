#include "carafe/train/metrics.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {

Metrics::Metrics(const std::string& path, bool append) : path_(path) {
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) {
    throw DataError(path, -1, fmt::format("it cannot be written: {}", std::strerror(errno)),
                    "choose another --run_dir, or correct the folder's permissions");
  }
  // The lock ends with the process, however it ends.
  if (flock(fileno(file_), LOCK_EX | LOCK_NB) != 0) {
    std::fclose(file_);
    throw ConfigError(
        fmt::format("another run is writing {}", path),
        "wait for it to end, or give this run a --run_dir and a snapshot_prefix of its own");
  }
  if (!append && ftruncate(fileno(file_), 0) != 0) {
    LogWarning("{} could not be emptied: {}", path, std::strerror(errno));
  }
  std::fseek(file_, 0, SEEK_END);
  if (std::ftell(file_) == 0) std::fputs("iteration,seconds,phase,net,name,value\n", file_);
}

Metrics::~Metrics() {
  if (file_ != nullptr) std::fclose(file_);
}

void Metrics::Add(int64_t iteration, const char* phase, int net, const std::string& name,
                  double value) {
  if (file_ == nullptr) return;
  fmt::print(file_, "{},{:.3f},{},{},{},{:.9g}\n", iteration, timer_.Seconds(), phase, net, name,
             value);
}

void Metrics::Flush() {
  if (file_ == nullptr || std::fflush(file_) == 0 || failed_) return;
  failed_ = true;  // say it once; training goes on
  LogError("writing {} failed: {}; the run goes on without it. Free some space on that disk", path_,
           std::strerror(errno));
}

}  // namespace carafe
