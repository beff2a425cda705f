#include "carafe/net/fusion.h"

namespace carafe {
namespace {

// The next layer after `producer` that has the blob as a bottom, if it works in place; or -1.
template <typename T>
int NextInPlace(const Graph<T>& graph, int producer, int blob) {
  for (int l = producer + 1; l < graph.size(); ++l) {
    const std::vector<int>& bottoms = At(graph.bottom_ids, l);
    if (std::ranges::find(bottoms, blob) == bottoms.end()) continue;
    return At(graph.top_ids, l) == bottoms ? l : -1;
  }
  return -1;
}

// Whether no other layer uses its parameters.
template <typename T>
bool OwnsItsParams(const Parameters<T>& params, int layer) {
  for (const int param : params.UsedBy(layer)) {
    const Param<T>& owner = At(params.all(), param);
    if (owner.layer != layer || owner.final_layer != layer) return false;
  }
  return true;
}

}  // namespace

template <typename T>
std::vector<Fusion> FindFusions(const Graph<T>& graph, const Parameters<T>& params,
                                MemorySharing sharing) {
  std::vector<Fusion> found;
  std::vector<bool> taken(graph.layers.size(), false);
  for (int l = 0; l < graph.size(); ++l) {
    const FusibleFollowers can = At(graph.layers, l)->CanFuse();
    if (!can.relu || At(taken, l) || At(graph.top_ids, l).size() != 1) continue;
    const int blob = At(graph.top_ids, l)[0];
    if (At(graph.blob_loss_weights, blob) != 0) continue;
    Fusion fusion = {.producer = l};
    int next = NextInPlace(graph, l, blob), last = l;
    const auto role = [&] { return At(graph.layers, next)->RoleAsFollower(); };
    const auto take = [&](int* follower) {
      At(taken, next) = true;
      *follower = last = next;
      next = NextInPlace(graph, next, blob);
    };
    if (next == last + 1 && sharing == MemorySharing::kForward && can.norm &&
        role() == FollowerRole::kChannelNorm) {
      take(&fusion.norm);
    }
    if (next == last + 1 && sharing != MemorySharing::kNone && (fusion.norm >= 0 || can.scale) &&
        role() == FollowerRole::kChannelScale && OwnsItsParams(params, next)) {
      take(&fusion.scale);
    }
    if (next >= 0 && role() == FollowerRole::kRelu) take(&fusion.relu);
    if (fusion.last() >= 0) found.push_back(fusion);
  }
  return found;
}

std::vector<int> FusedInto(const std::vector<Fusion>& fusions, int layers) {
  std::vector<int> producers(static_cast<size_t>(layers), -1);
  for (const Fusion& fusion : fusions) {
    for (const int follower : fusion.followers()) {
      if (follower >= 0) At(producers, follower) = fusion.producer;
    }
  }
  return producers;
}

template std::vector<Fusion> FindFusions(const Graph<float>&, const Parameters<float>&,
                                         MemorySharing);
template std::vector<Fusion> FindFusions(const Graph<double>&, const Parameters<double>&,
                                         MemorySharing);

}  // namespace carafe
