#include "carafe/solvers/snapshot_size.h"

#include <fmt/format.h>

#include <climits>

#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

// Tags, lengths and shape around a blob's values: 32 axes of 10 bytes at most, and 6 lengths.
constexpr int64_t kAroundBlob = 384;
// Phase, loss weights and lengths that are added to a layer's settings.
constexpr int64_t kAroundLayer = 256;

}  // namespace

template <typename T>
SnapshotBytes BinarySnapshotBytes(const Net<T>& net, int slots, bool with_diff) {
  SnapshotBytes bytes;
  const int64_t copies = with_diff ? 2 : 1;
  for (const auto& layer : net.layers()) {
    bytes.weights += static_cast<int64_t>(layer->spec().param().ByteSizeLong()) + kAroundLayer;
    for (const auto& blob : layer->blobs()) {
      bytes.weights += copies * blob->count() * static_cast<int64_t>(sizeof(T)) + kAroundBlob;
    }
  }
  for (const Param<T>& param : net.params()) {
    bytes.state += slots * (param.blob->count() * static_cast<int64_t>(sizeof(T)) + kAroundBlob);
  }
  return bytes;
}

template <typename T>
void CheckSnapshotSize(const SolverSpec& spec, const Net<T>& net) {
  const SolverParameter& param = spec.param;
  if (param.snapshot() == 0 && !param.snapshot_after_train()) return;
  if (param.snapshot_format() != SolverParameter::BINARYPROTO) return;
  const RuleEntry* rule = RuleRegistry::Instance().Find(param.type());
  Ensure(rule != nullptr, "the solver's type was not checked");
  const int slots = rule->make_float(RuleConfig{})->num_slots();  // no setting changes it
  const SnapshotBytes bytes = BinarySnapshotBytes(net, slots, param.snapshot_diff());
  const auto check = [&](int64_t size, const char* file) {
    if (size <= INT_MAX) return;
    throw ConfigError(
        spec.place.Find(param.has_snapshot_format() ? "snapshot_format" : "snapshot"),
        fmt::format("the {} of this net takes {:.2f} GiB, and a binaryproto file holds less than 2",
                    file, static_cast<double>(size) / (1 << 30)),
        "use snapshot_format: HDF5");
  };
  check(bytes.weights, ".caffemodel");
  check(bytes.state, ".solverstate");
}

#define CARAFE_INSTANTIATE(T)                                              \
  template SnapshotBytes BinarySnapshotBytes<T>(const Net<T>&, int, bool); \
  template void CheckSnapshotSize<T>(const SolverSpec&, const Net<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
