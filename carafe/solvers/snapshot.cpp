#include "carafe/solvers/snapshot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

#include "carafe/base/checksum.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/net/weights_hdf5.h"
#include "carafe/solvers/snapshot_list.h"
#include "carafe/solvers/snapshot_manifest.h"
#include "carafe/solvers/snapshot_size.h"
#include "carafe/solvers/state_file.h"
#include "carafe/solvers/training_state.h"

namespace carafe {
namespace {

template <typename T>
void WriteWeights(Solver<T>& solver, const std::string& path) {
  const bool with_diff = solver.param().snapshot_diff();
  if (solver.param().snapshot_format() == SolverParameter::HDF5) {
    WriteWeightsHdf5(solver.stream(), solver.net(), with_diff, path);
    return;
  }
  WriteFileAtomically(
      path, SerializeSnapshot(ToNetParameter(solver.stream(), solver.net(), with_diff), path));
}

template <typename T>
void WriteHistories(Solver<T>& solver, TensorSink<T>& sink) {
  size_t number = 0;
  for (const Blob<T>& blob : solver.history()) {
    sink.WriteWhole(HistoryName(number++), blob.shape(), blob.DataToHost(solver.stream()));
  }
}

template <typename T>
void WriteNamed(const std::map<std::string, std::vector<T>>& tensors, TensorSink<T>& sink) {
  for (const auto& [name, values] : tensors)
    sink.WriteWhole(name, Shape({static_cast<int64_t>(values.size())}), values);
}

template <typename T>
std::map<std::string, std::vector<T>> ReadNamed(const TensorSet& tensors,
                                                const std::vector<std::string>& names) {
  std::map<std::string, std::vector<T>> found;
  for (const std::string& name : names) {
    const std::vector<double> values = tensors.Read(name);
    found[name] = std::vector<T>(values.begin(), values.end());
  }
  return found;
}

// Larger values would overflow in products with the batch; max_iter has 32 bits.
void CheckCounters(const TrainingState& state, const std::string& path) {
  if (state.iteration() >= 0 && state.iteration() <= INT32_MAX && state.samples_seen() >= 0) return;
  throw DataError(
      path, -1,
      fmt::format("it is of iteration {} and sample {}", state.iteration(), state.samples_seen()),
      "the file is damaged or of another kind; try --snapshot=auto");
}

template <typename T>
void CheckHistories(const TensorSet& tensors, const std::string& path, Solver<T>& solver) {
  const std::vector<Blob<T>>& history = solver.history();
  if (tensors.histories() != history.size()) {
    throw DataError(path, -1,
                    fmt::format("it holds {} history blobs, but solver type {} needs {} here",
                                tensors.histories(), solver.param().type(), history.size()),
                    "resume with the solver type and the net that wrote it");
  }
  for (size_t i = 0; i < history.size(); ++i) {
    const int64_t count = tensors.ShapeOf(HistoryName(i)).Count();
    if (count == history[i].count()) continue;
    throw DataError(
        path, -1,
        fmt::format("history blob {} has {} values instead of {}", i, count, history[i].count()),
        "resume with the net that wrote it");
  }
}

}  // namespace

SnapshotFiles SnapshotNames(const std::string& prefix, int64_t iteration,
                            SolverParameter::SnapshotFormat format) {
  const std::string stem = fmt::format("{}_iter_{}", prefix, iteration);
  const char* end = format == SolverParameter::HDF5 ? ".h5" : "";
  return {fmt::format("{}.caffemodel{}", stem, end), fmt::format("{}.solverstate{}", stem, end)};
}

template <typename T>
SnapshotFiles WriteSnapshot(Solver<T>& solver, const TrainingState& state) {
  const SolverParameter& param = solver.param();
  const auto format = param.snapshot_format();
  const char* kind = format == SolverParameter::HDF5 ? "HDF5" : "binary proto";
  const SnapshotFiles files = SnapshotNames(param.snapshot_prefix(), solver.iteration(), format);
  LogInfo("Snapshotting to {} file {}", kind, files.weights);
  std::error_code ignored;
  std::filesystem::remove(ManifestName(files.state), ignored);  // of an earlier run
  WriteWeights(solver, files.weights);
  LogInfo("Snapshotting solver state to {} file {}", kind, files.state);
  StateHead head = ToStateHead(state, files.weights);
  const std::string weights_checksum = FileChecksum(files.weights);
  head.mutable_file()->set_weights_checksum(weights_checksum);
  WriteStateFile<T>(files.state, format, head, [&](TensorSink<T>& sink) {
    WriteHistories(solver, sink);
    WriteNamed(solver.residuals().tensors(), sink);
    WriteNamed(solver.local_history().tensors(), sink);
  });
  WriteManifest(ManifestName(files.state),
                {{files.weights, weights_checksum}, {files.state, FileChecksum(files.state)}});
  return files;
}

template <typename T>
TrainingState ReadSnapshot(const std::string& state_path, Solver<T>& solver) {
  StateFile stored = OpenStateFile(state_path);
  if (!stored.verified) LogInfo("{}: not verified, because it has no checksum", state_path);
  const TrainingState state = FromStateHead(stored.head);
  CheckCounters(state, state_path);
  const std::string weights = FindWeights(stored.head, state_path);
  std::vector<std::string> residuals, local;
  for (const TensorShard& shard : stored.tensors->shards()) {
    if (Residuals<T>::IsName(shard.name)) residuals.push_back(shard.name);
    if (LocalHistory<T>::IsName(shard.name)) local.push_back(shard.name);
  }
  TensorSet tensors;
  tensors.Add(std::move(stored.tensors));
  // All that can be refused without the weights comes first: a refused file changes nothing.
  CheckHistories(tensors, state_path, solver);
  LoadWeightsFile(solver.stream(), weights, solver.net());
  if (state.has_weights_hash() &&
      state.weights_hash() != WeightsHash(solver.stream(), solver.net())) {
    throw DataError(weights, -1,
                    fmt::format("these are not the weights that {} was written with", state_path),
                    "use the .caffemodel of the same snapshot, or --weights to start from it");
  }
  std::vector<Blob<T>>& history = solver.history();
  for (size_t i = 0; i < history.size(); ++i) {
    const std::vector<double> values = tensors.Read(HistoryName(i));
    history[i].SetData(solver.stream(), std::vector<T>(values.begin(), values.end()));
  }
  solver.residuals().Set(ReadNamed<T>(tensors, residuals), state.workers());
  solver.local_history().Set(ReadNamed<T>(tensors, local));
  return state;
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

#define CARAFE_INSTANTIATE(T)                                                \
  template SnapshotFiles WriteSnapshot<T>(Solver<T>&, const TrainingState&); \
  template TrainingState ReadSnapshot<T>(const std::string&, Solver<T>&);    \
  template void CheckSnapshotPossible<T>(Solver<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
