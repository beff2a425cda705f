#include "carafe/train/device_choice.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

int AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

int PositiveNumber(const std::string& text, const std::string& what) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw ConfigError(fmt::format("{} is \"{}\"", what, text), "give a number");
  }
  return value;
}

}  // namespace

int ChooseThreads(int asked, const Group& group, int workers) {
  const int online = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const int share = std::max(online / group.local_size(), 1);
  const int allowed = AllowedCores();
  // Ranks with threads of their own choice are looked at by PinningAdvice.
  if (asked <= 0 && group.rank() == 0 && group.size() > 1 && allowed < share) {
    LogWarning(
        "the launcher has pinned this rank to {} of the {} cores that it could use: start with "
        "carafe launch, or give mpirun --bind-to none",
        allowed, share);
  }
  if (asked > 0) return asked;
  if (const char* omp = std::getenv("OMP_NUM_THREADS"); omp != nullptr && *omp != '\0') {
    return std::max(
        PositiveNumber(std::string(omp).substr(0, std::string(omp).find(',')), "OMP_NUM_THREADS"),
        1);
  }
  return std::max(std::min(share, allowed) / std::max(workers, 1), 1);
}

std::optional<int> ChooseGpu(const std::string& gpu, bool file_wants_gpu, int visible,
                             int local_rank, int local_size) {
  if (gpu.empty()) {
    if (!file_wants_gpu || visible == 0) return std::nullopt;
    return local_rank % visible;
  }
  if (gpu == "all" || gpu == "auto") return local_rank % std::max(visible, 1);
  std::vector<int> ids;
  for (size_t begin = 0; begin <= gpu.size();) {
    const size_t comma = std::min(gpu.find(',', begin), gpu.size());
    ids.push_back(PositiveNumber(gpu.substr(begin, comma - begin), "--gpu"));
    begin = comma + 1;
  }
  if (static_cast<int>(ids.size()) > local_size) {
    throw ConfigError(fmt::format("--gpu={} names {} GPUs for {} rank(s) on this host", gpu,
                                  ids.size(), local_size),
                      fmt::format("start one rank per GPU, e.g. mpirun -n {}", ids.size()));
  }
  return ids[static_cast<size_t>(local_rank) % ids.size()];
}

std::unique_ptr<Stream> MakeStream(const std::string& gpu, bool file_wants_gpu, int threads,
                                   const Group& group) {
  const int visible = CudaDeviceCount();
  if (gpu.empty() && file_wants_gpu && visible == 0 && group.rank() == 0) {
    LogWarning("solver_mode is GPU, but no GPU can be used here: running on the CPU");
  }
  const std::optional<int> id =
      ChooseGpu(gpu, file_wants_gpu, visible, group.local_rank(), group.local_size());
  return std::make_unique<Stream>(id ? CudaDevice(*id) : CpuDevice(), threads);
}

}  // namespace carafe
