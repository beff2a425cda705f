#include "carafe/solvers/snapshot_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <tuple>

#include "carafe/base/checksum.h"
#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/state_file.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMiddle = "_iter_";

// "<prefix>_iter_<N>.solverstate" or the same with .h5.
std::optional<FoundSnapshot> ParseName(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view suffix : {".solverstate", ".solverstate.h5"}) {
    const size_t middle = name.rfind(kMiddle);
    if (!name.ends_with(suffix) || middle == std::string::npos) continue;
    const char* first = name.data() + middle + kMiddle.size();
    const char* last = name.data() + name.size() - suffix.size();
    if (first >= last) continue;
    FoundSnapshot found;
    const auto [stop, error] = std::from_chars(first, last, found.iteration);
    if (error != std::errc() || stop != last || found.iteration < 0) continue;
    found.prefix = name.substr(0, middle);
    found.state = path.string();
    return found;
  }
  return {};
}

template <typename Wanted>
std::vector<FoundSnapshot> Find(const fs::path& folder, const Wanted& wanted) {
  std::vector<FoundSnapshot> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::optional<FoundSnapshot> snapshot = ParseName(entry.path());
    if (!snapshot || !wanted(*snapshot)) continue;
    snapshot->written_us = StateWriteTime(snapshot->state);
    found.push_back(*std::move(snapshot));
  }
  std::ranges::sort(found, [](const FoundSnapshot& a, const FoundSnapshot& b) {
    return std::tie(a.written_us, a.iteration, a.state) >
           std::tie(b.written_us, b.iteration, b.state);
  });
  return found;
}

}  // namespace

std::vector<FoundSnapshot> FindSnapshots(const std::string& prefix) {
  const fs::path path(prefix);
  const std::string name = path.filename().string();
  std::vector<FoundSnapshot> found =
      Find(path.has_parent_path() ? path.parent_path() : ".",
           [&](const FoundSnapshot& snapshot) { return snapshot.prefix == name; });
  for (FoundSnapshot& snapshot : found) snapshot.prefix = prefix;
  return found;
}

std::vector<FoundSnapshot> FindSnapshotsIn(const std::string& folder) {
  std::vector<FoundSnapshot> found = Find(folder, [](const FoundSnapshot&) { return true; });
  for (FoundSnapshot& snapshot : found) {
    snapshot.prefix = (fs::path(folder) / snapshot.prefix).string();
  }
  return found;
}

std::string FindWeights(const StateHead& state, const std::string& state_path) {
  std::error_code ignored;
  if (fs::exists(state.learned_net(), ignored)) return state.learned_net();
  const fs::path beside =
      fs::path(state_path).parent_path() / fs::path(state.learned_net()).filename();
  if (fs::exists(beside, ignored)) return beside.string();
  throw DataError(
      state_path, -1,
      fmt::format("its weights are neither at {} nor at {}", state.learned_net(), beside.string()),
      "put the .caffemodel beside the .solverstate");
}

SnapshotFacts CheckSnapshotFiles(const std::string& state) {
  const StateFile file = OpenStateFile(state);
  SnapshotFacts facts{.weights = FindWeights(file.head, state), .verified = file.verified};
  const StateFileFacts& stored = file.head.file();
  if (!stored.has_weights_checksum()) {
    facts.verified = false;
    CheckWeightsFile(facts.weights);
  } else if (FileChecksum(facts.weights) != stored.weights_checksum()) {
    throw DataError(facts.weights, -1,
                    fmt::format("it does not match the checksum that {} has of it", state),
                    "the file is damaged or of another run; use an older snapshot");
  }
  return facts;
}

std::string NewestSnapshot(const std::string& prefix) {
  for (const FoundSnapshot& found : FindSnapshots(prefix)) {
    try {
      CheckSnapshotFiles(found.state);
      return found.state;
    } catch (const Error& error) {
      LogWarning("skipping {}: {}", found.state, error.what());
    }
  }
  return "";
}

}  // namespace carafe
