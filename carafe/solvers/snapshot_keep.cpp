#include "carafe/solvers/snapshot_keep.h"

#include <filesystem>
#include <string_view>

#include "carafe/base/log.h"
#include "carafe/solvers/snapshot_list.h"
#include "carafe/solvers/snapshot_manifest.h"

namespace carafe {
namespace {

// "<stem>.solverstate.h5" -> "<stem>.caffemodel.h5"
std::string WeightsBeside(const std::string& state) {
  constexpr std::string_view kState = ".solverstate";
  std::string weights = state;
  return weights.replace(weights.rfind(kState), kState.size(), ".caffemodel");
}

// The state goes before its weights, so that none is left without them.
void Remove(const std::string& state) {
  for (const std::string& file : {ManifestName(state), state, WeightsBeside(state)}) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) LogWarning("{} cannot be removed: {}", file, error.message());
  }
}

}  // namespace

void RemoveOldSnapshots(const std::string& prefix, int64_t keep, int64_t keep_every) {
  int64_t newer = 0;
  for (const FoundSnapshot& found : FindSnapshots(prefix)) {
    if (newer++ < keep) continue;
    if (keep_every > 0 && found.iteration % keep_every == 0) continue;
    Remove(found.state);
  }
}

}  // namespace carafe
