#include "carafe/train/device_choice.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string_view>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/train/options.h"

namespace carafe {
namespace {

int AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

int IntegerIn(const std::string& text, const std::string& name, int min, int max) {
  OptionDomain domain;
  domain.type = OptionType::kInteger;
  domain.min = min;
  domain.max = max;
  return static_cast<int>(domain.Integer(text, name, {}));
}

constexpr std::string_view kAutoOf = "auto-";

std::vector<int> ListOf(const std::string& gpu) {
  std::vector<int> ids;
  for (size_t begin = 0; begin <= gpu.size();) {
    const size_t comma = std::min(gpu.find(',', begin), gpu.size());
    ids.push_back(IntegerIn(gpu.substr(begin, comma - begin), "--gpu", 0, INT32_MAX));
    begin = comma + 1;
  }
  return ids;
}

}  // namespace

int ChooseThreads(std::optional<int> asked, const Group& group, int workers) {
  const int online = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const int share = std::max(online / group.local_size(), 1);
  const int allowed = AllowedCores();
  if (asked) return *asked;  // PinningAdvice compares it with the cores
  if (group.rank() == 0 && group.size() > 1 && allowed < share) {
    LogWarning(
        "the launcher has pinned this rank to {} of the {} cores that it could use: start with "
        "carafe launch, or give mpirun --bind-to none",
        allowed, share);
  }
  if (const char* omp = std::getenv("OMP_NUM_THREADS"); omp != nullptr && *omp != '\0') {
    const std::string first = std::string(omp).substr(0, std::string(omp).find(','));
    return std::max(IntegerIn(first, "OMP_NUM_THREADS", 0, kMostThreads), 1);
  }
  return std::max(std::min(share, allowed) / std::max(workers, 1), 1);
}

std::vector<int> ChooseGpus(const std::string& gpu, bool file_wants_gpu, const RankOfHost& place) {
  if (gpu.empty() && (!file_wants_gpu || place.visible == 0)) return {};
  const int some = std::max(place.visible, 1);  // where there is none, GPU 0 is refused by name
  if (gpu.empty() || gpu == "auto") return {place.rank % some};
  if (gpu.starts_with(kAutoOf))
    return {place.rank % IntegerIn(gpu.substr(kAutoOf.size()), "--gpu=auto-N", 1, INT32_MAX)};
  std::vector<int> ids(static_cast<size_t>(some));
  std::iota(ids.begin(), ids.end(), 0);
  if (gpu != "all") ids = ListOf(gpu);
  const int count = Count(ids);
  if (count <= place.size) return {At(ids, place.rank % count)};
  if (count % place.size != 0) {
    throw ConfigError(fmt::format("--gpu={} names {} GPUs for {} ranks of this host, which cannot "
                                  "have as many each",
                                  gpu, count, place.size),
                      "use --gpu=auto for one GPU per rank, or name a multiple of the ranks");
  }
  const int share = count / place.size;
  const std::vector<int> mine(ids.begin() + place.rank * share,
                              ids.begin() + (place.rank + 1) * share);
  if (std::set<int>(mine.begin(), mine.end()).size() < mine.size()) {
    throw ConfigError(fmt::format("--gpu={} names a GPU twice for one rank", gpu),
                      "name each GPU once; --workers=N runs N workers on one GPU");
  }
  return mine;
}

std::optional<int> ChooseGpu(const std::string& gpu, bool file_wants_gpu, const RankOfHost& place) {
  const std::vector<int> ids = ChooseGpus(gpu == "all" ? "auto" : gpu, file_wants_gpu, place);
  if (ids.empty()) return std::nullopt;
  if (ids.size() > 1) {
    throw ConfigError(
        fmt::format("--gpu={} names {} GPUs for {} rank(s) on this host, of which "
                    "each uses one",
                    gpu, ListOf(gpu).size(), place.size),
        fmt::format("name one, or start one rank per GPU, e.g. mpirun -n {}", ListOf(gpu).size()));
  }
  return ids.front();
}

namespace {

RankOfHost PlaceOf(const Group& group) {
  return {.visible = CudaDeviceCount(), .rank = group.local_rank(), .size = group.local_size()};
}

void WarnOfNoGpu(const std::string& gpu, bool file_wants_gpu, const Group& group) {
  if (gpu.empty() && file_wants_gpu && CudaDeviceCount() == 0 && group.rank() == 0)
    LogWarning("solver_mode is GPU, but no GPU can be used here: running on the CPU");
}

}  // namespace

std::unique_ptr<Stream> MakeStream(const std::string& gpu, bool file_wants_gpu, int threads,
                                   const Group& group) {
  WarnOfNoGpu(gpu, file_wants_gpu, group);
  const std::optional<int> id = ChooseGpu(gpu, file_wants_gpu, PlaceOf(group));
  return std::make_unique<Stream>(id ? CudaDevice(*id) : CpuDevice(), threads);
}

std::vector<Stream*> WorkerStreams::others() const {
  std::vector<Stream*> streams;
  for (size_t w = 1; w < of_gpus.size(); ++w) streams.push_back(of_gpus[w].get());
  return streams;
}

WorkerStreams MakeWorkerStreams(const std::string& gpu, bool file_wants_gpu, int workers,
                                std::optional<int> threads, const Group& group) {
  WarnOfNoGpu(gpu, file_wants_gpu, group);
  const std::vector<int> ids = ChooseGpus(gpu, file_wants_gpu, PlaceOf(group));
  if (ids.size() > 1 && workers > 1) {
    throw ConfigError(
        fmt::format("--workers={} beside --gpu={}, which gives this rank {} GPUs with "
                    "a worker each",
                    workers, gpu, ids.size()),
        "remove --workers, or name one GPU per rank");
  }
  WorkerStreams streams{.workers = std::max(workers, Count(ids)), .of_gpus = {}};
  const int each = ChooseThreads(threads, group, streams.workers);
  for (const int id : ids)
    streams.of_gpus.push_back(std::make_unique<Stream>(CudaDevice(id), each));
  if (ids.empty()) streams.of_gpus.push_back(std::make_unique<Stream>(CpuDevice(), each));
  return streams;
}

}  // namespace carafe
