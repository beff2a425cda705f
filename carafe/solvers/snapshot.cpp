#include "carafe/solvers/snapshot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <filesystem>
#include <utility>

#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/net/weights_hdf5.h"
#include "carafe/solvers/snapshot_size.h"
#include "carafe/solvers/state_file.h"

namespace carafe {
namespace {

constexpr std::string_view kStateSuffixes[] = {".solverstate", ".solverstate.h5"};

// The stored path may be stale (relative to another working directory, or moved with its folder).
std::string FindWeights(const SolverState& state, const std::string& state_path) {
  std::error_code ignored;
  if (std::filesystem::exists(state.learned_net(), ignored)) return state.learned_net();
  const std::filesystem::path beside = std::filesystem::path(state_path).parent_path() /
                                       std::filesystem::path(state.learned_net()).filename();
  if (std::filesystem::exists(beside, ignored)) return beside.string();
  throw DataError(
      state_path, -1,
      fmt::format("its weights are neither at {} nor at {}", state.learned_net(), beside.string()),
      "put the .caffemodel beside the .solverstate");
}

}  // namespace

SnapshotFiles SnapshotNames(const std::string& prefix, int64_t iteration,
                            SolverParameter::SnapshotFormat format) {
  const std::string stem = fmt::format("{}_iter_{}", prefix, iteration);
  const char* end = format == SolverParameter::HDF5 ? ".h5" : "";
  return {fmt::format("{}.caffemodel{}", stem, end), fmt::format("{}.solverstate{}", stem, end)};
}

template <typename T>
SnapshotFiles WriteSnapshot(Solver<T>& solver, const CarafeState& carafe) {
  const SolverParameter& param = solver.param();
  const auto format = param.snapshot_format();
  const char* kind = format == SolverParameter::HDF5 ? "HDF5" : "binary proto";
  const SnapshotFiles files = SnapshotNames(param.snapshot_prefix(), solver.iteration(), format);
  LogInfo("Snapshotting to {} file {}", kind, files.weights);
  if (format == SolverParameter::HDF5) {
    WriteWeightsHdf5(solver.stream(), solver.net(), param.snapshot_diff(), files.weights);
  } else {
    WriteFileAtomically(
        files.weights,
        SerializeSnapshot(ToNetParameter(solver.stream(), solver.net(), param.snapshot_diff()),
                          files.weights));
  }
  SolverState state;
  state.set_iter(static_cast<int>(solver.iteration()));
  state.set_learned_net(files.weights);
  state.set_current_step(solver.learning_rate().current_step());
  *state.mutable_carafe() = carafe;
  LogInfo("Snapshotting solver state to {} file {}", kind, files.state);
  WriteStateFile(solver.stream(), state, solver.history(), format, files.state);
  return files;
}

template <typename T>
std::optional<CarafeState> ReadSnapshot(const std::string& state_path, Solver<T>& solver) {
  const StoredState stored = ReadStateFile(state_path);
  const SolverState& state = stored.head;
  const std::string weights = FindWeights(state, state_path);
  // All that can be refused without the weights comes first: a refused file changes nothing.
  std::vector<Blob<T>>& history = solver.history();
  if (stored.history.size() != history.size()) {
    throw DataError(state_path, -1,
                    fmt::format("it holds {} history blobs, but solver type {} needs {} here",
                                stored.history.size(), solver.param().type(), history.size()),
                    "resume with the solver type and the net that wrote it");
  }
  for (size_t i = 0; i < history.size(); ++i) {
    if (static_cast<int64_t>(stored.history[i].size()) != history[i].count()) {
      throw DataError(state_path, -1,
                      fmt::format("history blob {} has {} values instead of {}", i,
                                  stored.history[i].size(), history[i].count()),
                      "resume with the net that wrote it");
    }
  }
  LoadWeightsFile(solver.stream(), weights, solver.net());
  if (state.carafe().has_weights_hash() &&
      state.carafe().weights_hash() != WeightsHash(solver.stream(), solver.net())) {
    throw DataError(weights, -1,
                    fmt::format("these are not the weights that {} was written with", state_path),
                    "use the .caffemodel of the same snapshot, or --weights to start from it");
  }
  for (size_t i = 0; i < history.size(); ++i) {
    history[i].SetData(solver.stream(),
                       std::vector<T>(stored.history[i].begin(), stored.history[i].end()));
  }
  solver.set_iteration(state.iter());
  solver.learning_rate().set_current_step(state.current_step());
  if (!state.has_carafe()) return std::nullopt;
  return state.carafe();
}

std::string NewestSnapshot(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::string stem = path.filename().string() + "_iter_";
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const char* suffix = std::strchr(name.c_str() + std::min(stem.size(), name.size()), '.');
    if (!name.starts_with(stem) || suffix == nullptr) continue;
    if (std::ranges::find(kStateSuffixes, suffix) == std::end(kStateSuffixes)) continue;
    int64_t iteration = 0;
    const auto [stop, error] = std::from_chars(name.data() + stem.size(), suffix, iteration);
    if (error == std::errc() && stop == suffix) {
      found.emplace_back(iteration, entry.path().string());
    }
  }
  std::ranges::sort(found, std::greater<>());
  for (const auto& [iteration, candidate] : found) {
    try {
      CheckWeightsFile(FindWeights(ReadStateFile(candidate).head, candidate));
      return candidate;
    } catch (const Error& error) {
      LogWarning("skipping {}: {}", candidate, error.what());
    }
  }
  return "";
}

template <typename T>
void CheckSnapshotPossible(Solver<T>& solver) {
  const SolverParameter& param = solver.param();
  if (param.snapshot() == 0 && !param.snapshot_after_train()) return;
  if (param.snapshot_format() == SolverParameter::HDF5) {
    CheckHdf5Names(solver.net());
  }
  CheckSnapshotSize(solver.spec(), solver.net());
  const std::filesystem::path folder = std::filesystem::path(param.snapshot_prefix()).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string where = folder.empty() ? "." : folder.string();
  if (error || access(where.c_str(), W_OK) != 0) {
    throw ConfigError(solver.spec().place.Find("snapshot_prefix"),
                      fmt::format("the snapshot folder {} cannot be written", where),
                      "choose another snapshot_prefix, or correct the folder's permissions");
  }
}

#define CARAFE_INSTANTIATE(T)                                                          \
  template SnapshotFiles WriteSnapshot<T>(Solver<T>&, const CarafeState&);             \
  template std::optional<CarafeState> ReadSnapshot<T>(const std::string&, Solver<T>&); \
  template void CheckSnapshotPossible<T>(Solver<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
