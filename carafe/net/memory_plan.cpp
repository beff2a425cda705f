#include "carafe/net/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "carafe/net/fusion.h"

namespace carafe {
namespace {

constexpr int kNever = -1;

// A half and all its sharers. Times: layer l runs forward at l, backward at 2 n - 1 - l.
struct Group {
  bool fixed = false;    // does not take part
  bool written = false;  // of diffs: some layer propagates to it
  int first = kNever, last = kNever;
  int64_t elements = 0;

  void UseAt(int time) {
    first = first == kNever ? time : std::min(first, time);
    last = std::max(last, time);
  }
};

template <typename T>
class Planner {
 public:
  Planner(const Graph<T>& graph, const Parameters<T>& params, MemorySharing sharing,
          const std::set<int>& keep)
      : graph_(graph),
        sharing_(sharing),
        layers_(graph.size()),
        fused_into_(FusedInto(FindFusions(graph, params, sharing), graph.size())) {
    FindRoots();
    data_.resize(graph.blobs.size());
    diff_.resize(graph.blobs.size());
    FixWhatIsSeen(keep);
    for (int l = 0; l < layers_; ++l) UseForward(l);
    if (sharing_ == MemorySharing::kTraining) {
      for (int l = 0; l < layers_; ++l) {
        if (At(graph_.needs_backward, l)) UseBackward(l);
      }
    }
  }

  MemoryPlan Plan() {
    plan_.dead_after_forward.resize(graph_.layers.size());
    plan_.dead_after_backward.resize(graph_.layers.size());
    for (size_t b = 0; b < data_.size(); ++b) {
      if (data_root_[b] == static_cast<int>(b)) Add(data_[b], {static_cast<int>(b), false});
      if (diff_root_[b] == static_cast<int>(b)) Add(diff_[b], {static_cast<int>(b), true});
    }
    Simulate();
    return plan_;
  }

 private:
  void FindRoots() {
    data_root_.resize(graph_.blobs.size());
    std::iota(data_root_.begin(), data_root_.end(), 0);
    diff_root_ = data_root_;
    for (int l = 0; l < layers_; ++l) {
      const TopSharing sharing = At(graph_.layers, l)->SharesBottom();
      if (At(graph_.bottom_ids, l).empty()) continue;
      const int bottom = At(graph_.bottom_ids, l)[0];
      for (const int top : At(graph_.top_ids, l)) {
        if (sharing.data) At(data_root_, top) = At(data_root_, bottom);
        if (sharing.diff) At(diff_root_, top) = At(diff_root_, bottom);
      }
    }
  }
  Group& Data(int blob) { return At(data_, At(data_root_, blob)); }
  Group& Diff(int blob) { return At(diff_, At(diff_root_, blob)); }
  void FixWhatIsSeen(const std::set<int>& keep) {
    const auto fix = [&](int blob) { Data(blob).fixed = Diff(blob).fixed = true; };
    for (const int blob : keep) fix(blob);
    for (const int blob : graph_.output_ids) fix(blob);
    for (int l = 0; l < layers_; ++l) {
      for (const int blob : At(graph_.top_ids, l)) {
        const bool is_loss = At(graph_.blob_loss_weights, blob) != 0;
        if (At(graph_.bottom_ids, l).empty() || is_loss) fix(blob);
      }
    }
  }
  int64_t StoredElements(int blob) const {
    const Shape& shape = At(graph_.blobs, blob)->shape();
    return HasBlockedGeometry(shape) ? BlockedGeometryOf(shape).padded_count() : shape.Count();
  }
  void UseForward(int l) {
    for (const auto* ids : {&At(graph_.bottom_ids, l), &At(graph_.top_ids, l)}) {
      for (const int blob : *ids) {
        Data(blob).UseAt(l);
        Data(blob).elements = std::max(Data(blob).elements, StoredElements(blob));
      }
    }
  }
  // A layer that is fused into an earlier one runs backward when that one does.
  void UseBackward(int l) {
    const int time = 2 * layers_ - 1 - l;
    const int producer = At(fused_into_, l);
    const int latest = producer < 0 ? time : 2 * layers_ - 1 - producer;
    const BackwardReads reads = At(graph_.layers, l)->ReadsInBackward();
    for (int b = 0; b < Count(At(graph_.bottom_ids, l)); ++b) {
      const int blob = At(At(graph_.bottom_ids, l), b);
      if (reads.bottom) Data(blob).UseAt(latest);
      if (!At(At(graph_.propagate_down, l), b)) continue;
      UseDiff(blob, time, latest);
      Diff(blob).written = true;
    }
    for (const int blob : At(graph_.top_ids, l)) {
      if (reads.top) Data(blob).UseAt(latest);
      UseDiff(blob, time, latest);
    }
  }
  void UseDiff(int blob, int time, int latest) {
    Group& group = Diff(blob);
    group.UseAt(time);
    group.UseAt(latest);
    group.elements = std::max(group.elements, StoredElements(blob));
  }
  // What layers keep of their bottom from Forward to Backward, in memory of the pool.
  std::vector<std::pair<int, size_t>> Kept() const {  // (layer, bytes)
    std::vector<std::pair<int, size_t>> kept;
    if (sharing_ != MemorySharing::kTraining) return kept;
    for (int l = 0; l < layers_; ++l) {
      const bool keeps = At(graph_.layers, l)->ReadsInBackward().kept;
      if (!At(graph_.needs_backward, l) || !keeps || At(fused_into_, l) >= 0) continue;
      const int64_t elements = StoredElements(At(graph_.bottom_ids, l)[0]);
      kept.push_back({l, static_cast<size_t>(elements) * sizeof(T)});
    }
    return kept;
  }
  void Add(const Group& group, BlobHalf half) {
    if (group.first == kNever) return;
    const size_t bytes = static_cast<size_t>(group.elements) * sizeof(T);
    if (group.fixed || (half.diff && !group.written)) {
      plan_.own_bytes += bytes;
      return;
    }
    (half.diff ? plan_.diff_bytes : plan_.data_bytes) += bytes;
    plan_.pooled.push_back(half);
    if (group.last < layers_) {
      At(plan_.dead_after_forward, group.last).push_back(half);
    } else {
      At(plan_.dead_after_backward, 2 * layers_ - 1 - group.last).push_back(half);
    }
  }
  const Group& GroupOf(BlobHalf half) const { return At(half.diff ? diff_ : data_, half.blob); }
  // Takes and gives memory as the net will, from a pool without end.
  void Simulate() {
    struct Piece {
      size_t bytes;
      int last;
      size_t offset = 0;
    };
    std::multimap<int, Piece> born;
    for (const BlobHalf half : plan_.pooled) {
      const Group& group = GroupOf(half);
      const size_t bytes = static_cast<size_t>(group.elements) * sizeof(T);
      born.insert({group.first, {MemoryPool::Rounded(bytes), group.last}});
    }
    for (const auto& [layer, bytes] : Kept()) {
      plan_.kept_bytes += bytes;
      born.insert({layer, {MemoryPool::Rounded(bytes), 2 * layers_ - 1 - layer}});
    }
    FreeRanges memory(SIZE_MAX / 2);
    std::multimap<int, Piece> dying;
    size_t live = 0;
    for (int time = 0; time < 2 * layers_; ++time) {
      for (auto [next, end] = born.equal_range(time); next != end; ++next) {
        Piece piece = next->second;
        piece.offset = memory.Take(piece.bytes);
        live += piece.bytes;
        plan_.live_bytes = std::max(plan_.live_bytes, live);
        plan_.pool_bytes = std::max(plan_.pool_bytes, piece.offset + piece.bytes);
        dying.insert({piece.last, piece});
      }
      for (auto [next, end] = dying.equal_range(time); next != end; ++next) {
        memory.Give(next->second.offset, next->second.bytes);
        live -= next->second.bytes;
      }
    }
  }

  const Graph<T>& graph_;
  const MemorySharing sharing_;
  const int layers_;
  const std::vector<int> fused_into_;       // by layer
  std::vector<int> data_root_, diff_root_;  // by blob: the first that has the same half
  std::vector<Group> data_, diff_;          // by blob; only roots count
  MemoryPlan plan_;
};

}  // namespace

template <typename T>
MemoryPlan PlanMemory(const Graph<T>& graph, const Parameters<T>& params, MemorySharing sharing,
                      const std::set<int>& keep) {
  return Planner<T>(graph, params, sharing, keep).Plan();
}

template MemoryPlan PlanMemory(const Graph<float>&, const Parameters<float>&, MemorySharing,
                               const std::set<int>&);
template MemoryPlan PlanMemory(const Graph<double>&, const Parameters<double>&, MemorySharing,
                               const std::set<int>&);

}  // namespace carafe
