#include "carafe/net/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "carafe/layers/keeps_for_backward.h"
#include "carafe/net/net.h"
#include "carafe/net/plan.h"

namespace carafe {
namespace {

constexpr int kNever = -1;

// A half and all its sharers. Times: layer l runs forward at l, backward at 2 n - 1 - l.
struct Group {
  bool fixed = false;    // does not take part
  bool written = false;  // of diffs: somebody propagates to it
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
  Planner(const Net<T>& net, MemorySharing sharing, const std::set<int>& keep)
      : net_(net), sharing_(sharing), layers_(static_cast<int>(net.layers().size())) {
    FindRoots();
    fused_into_.assign(net.layers().size(), -1);
    for (const Fusion& fusion : FindFusions(net, sharing)) {
      for (const int follower : fusion.followers()) {
        if (follower >= 0) fused_into_[static_cast<size_t>(follower)] = fusion.producer;
      }
    }
    data_.resize(net.blobs().size());
    diff_.resize(net.blobs().size());
    FixWhatIsSeen(keep);
    for (int l = 0; l < layers_; ++l) UseForward(l);
    if (sharing_ == MemorySharing::kTraining) {
      for (int l = 0; l < layers_; ++l) {
        if (net_.layer_needs_backward()[static_cast<size_t>(l)]) UseBackward(l);
      }
    }
  }

  MemoryPlan Plan() {
    plan_.dead_after_forward.resize(static_cast<size_t>(layers_));
    plan_.dead_after_backward.resize(static_cast<size_t>(layers_));
    for (size_t b = 0; b < data_.size(); ++b) {
      if (data_root_[b] == static_cast<int>(b)) Add(data_[b], {static_cast<int>(b), false});
      if (diff_root_[b] == static_cast<int>(b)) Add(diff_[b], {static_cast<int>(b), true});
    }
    Simulate();
    return plan_;
  }

 private:
  void FindRoots() {
    for (size_t b = 0; b < net_.blobs().size(); ++b) {
      data_root_.push_back(static_cast<int>(b));
      diff_root_.push_back(static_cast<int>(b));
    }
    for (size_t l = 0; l < net_.layers().size(); ++l) {
      const TopSharing sharing = net_.layers()[l]->SharesBottom();
      if (net_.bottom_ids()[l].empty()) continue;
      const size_t bottom = static_cast<size_t>(net_.bottom_ids()[l][0]);
      for (const int top : net_.top_ids()[l]) {
        if (sharing.data) data_root_[static_cast<size_t>(top)] = data_root_[bottom];
        if (sharing.diff) diff_root_[static_cast<size_t>(top)] = diff_root_[bottom];
      }
    }
  }
  Group& Data(int blob) {
    return data_[static_cast<size_t>(data_root_[static_cast<size_t>(blob)])];
  }
  Group& Diff(int blob) {
    return diff_[static_cast<size_t>(diff_root_[static_cast<size_t>(blob)])];
  }
  void FixWhatIsSeen(const std::set<int>& keep) {
    const auto fix = [&](int blob) { Data(blob).fixed = Diff(blob).fixed = true; };
    for (const int blob : keep) fix(blob);
    for (const int blob : net_.output_ids()) fix(blob);
    for (size_t l = 0; l < net_.layers().size(); ++l) {
      for (const int blob : net_.top_ids()[l]) {
        if (net_.bottom_ids()[l].empty() || net_.blob_loss_weight(blob) != 0) fix(blob);
      }
    }
  }
  int64_t StoredElements(int blob) const {
    const Shape& shape = net_.blobs()[static_cast<size_t>(blob)]->shape();
    return HasBlockedGeometry(shape) ? BlockedGeometryOf(shape).padded_count() : shape.Count();
  }
  void UseForward(int l) {
    for (const auto* ids :
         {&net_.bottom_ids()[static_cast<size_t>(l)], &net_.top_ids()[static_cast<size_t>(l)]}) {
      for (const int blob : *ids) {
        Data(blob).UseAt(l);
        Data(blob).elements = std::max(Data(blob).elements, StoredElements(blob));
      }
    }
  }
  // What is done together with an earlier layer is done, backward, when that one's turn comes.
  void UseBackward(int l) {
    const size_t i = static_cast<size_t>(l);
    const int time = 2 * layers_ - 1 - l;
    const int producer = fused_into_[i];
    const int latest = producer < 0 ? time : 2 * layers_ - 1 - producer;
    const BackwardReads reads = net_.layers()[i]->ReadsInBackward();
    for (size_t b = 0; b < net_.bottom_ids()[i].size(); ++b) {
      const int blob = net_.bottom_ids()[i][b];
      if (reads.bottom) Data(blob).UseAt(latest);
      if (!net_.propagate_down()[i][b]) continue;
      UseDiff(blob, time, latest);
      Diff(blob).written = true;
    }
    for (const int blob : net_.top_ids()[i]) {
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
      const size_t i = static_cast<size_t>(l);
      if (!net_.layer_needs_backward()[i] || !net_.layers()[i]->ReadsInBackward().kept) continue;
      if (fused_into_[i] >= 0) continue;
      const int64_t elements = StoredElements(net_.bottom_ids()[i][0]);
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
      plan_.dead_after_forward[static_cast<size_t>(group.last)].push_back(half);
    } else {
      plan_.dead_after_backward[static_cast<size_t>(2 * layers_ - 1 - group.last)].push_back(half);
    }
  }
  const Group& GroupOf(BlobHalf half) const {
    return (half.diff ? diff_ : data_)[static_cast<size_t>(half.blob)];
  }
  // Takes and gives as the net will, from memory without end.
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

  const Net<T>& net_;
  const MemorySharing sharing_;
  const int layers_;
  std::vector<int> fused_into_;             // by layer, as in Net
  std::vector<int> data_root_, diff_root_;  // by blob: the first that has the same half
  std::vector<Group> data_, diff_;          // by blob; only roots count
  MemoryPlan plan_;
};

}  // namespace

template <typename T>
MemoryPlan PlanMemory(const Net<T>& net, MemorySharing sharing, const std::set<int>& keep) {
  return Planner<T>(net, sharing, keep).Plan();
}

template MemoryPlan PlanMemory(const Net<float>&, MemorySharing, const std::set<int>&);
template MemoryPlan PlanMemory(const Net<double>&, MemorySharing, const std::set<int>&);

// Net's side of it.

template <typename T>
void Net<T>::ShareMemory(MemorySharing sharing, std::shared_ptr<MemoryPool> pool,
                         const std::vector<std::string>& keep) {
  std::set<int> kept;
  for (const std::string& name : keep) {
    if (blob_index_.contains(name)) kept.insert(blob_index_.at(name));
  }
  sharing_ = sharing;
  pool_ = sharing == MemorySharing::kNone ? nullptr : std::move(pool);
  kept_ = std::move(kept);
  FindFusions();
  ApplyMemoryPlan();
}

template <typename T>
void Net<T>::ApplyMemoryPlan() {
  for (const BlobHalf half : memory_.pooled) SetPool(half, nullptr);
  memory_ = {};
  scratch_->UsePool(pool_);
  for (const auto& layer : layers_) {
    if (auto* keeper = dynamic_cast<KeepsForBackward*>(layer.get()))
      keeper->KeepForBackward(sharing_ != MemorySharing::kForward);
  }
  if (sharing_ == MemorySharing::kNone) return;
  memory_ = PlanMemory(*this, sharing_, kept_);
  for (const BlobHalf half : memory_.pooled) SetPool(half, pool_);
}

template <typename T>
void Net<T>::SetPool(BlobHalf half, const std::shared_ptr<MemoryPool>& pool) {
  Blob<T>& blob = *blobs_[static_cast<size_t>(half.blob)];
  if (half.diff) {
    blob.PoolDiff(pool);
  } else {
    blob.PoolData(pool);
  }
}

template <typename T>
void Net<T>::Release(const std::vector<BlobHalf>& halves) {
  scratch_->Release();
  for (const BlobHalf half : halves) {
    Blob<T>& blob = *blobs_[static_cast<size_t>(half.blob)];
    if (half.diff) {
      blob.ReleaseDiff();
    } else {
      blob.ReleaseData();
    }
  }
}

template <typename T>
void Net<T>::BeginForward(RunContext& run, int first) {
  if (first > 0) {
    throw ConfigError(
        fmt::format("a pass was to start at layer {} of net \"{}\", whose blobs share memory",
                    first, name_),
        "run it from the first layer, or let it share no memory");
  }
  Release(memory_.pooled);
  pool_->Reserve(run.stream, memory_.pool_bytes);
  forward_done_ = sharing_ == MemorySharing::kTraining;
}

template <typename T>
void Net<T>::BeginBackward(int first, int last) {
  if (!forward_done_ || first + 1 < static_cast<int>(layers_.size()) || last > 0) {
    throw ConfigError(
        fmt::format("net \"{}\" shares memory, so that Backward runs once and as a whole", name_),
        "run Forward before every Backward, or let the net share no memory");
  }
  forward_done_ = false;
}

template void Net<float>::ShareMemory(MemorySharing, std::shared_ptr<MemoryPool>,
                                      const std::vector<std::string>&);
template void Net<double>::ShareMemory(MemorySharing, std::shared_ptr<MemoryPool>,
                                       const std::vector<std::string>&);
template void Net<float>::ApplyMemoryPlan();
template void Net<double>::ApplyMemoryPlan();
template void Net<float>::Release(const std::vector<BlobHalf>&);
template void Net<double>::Release(const std::vector<BlobHalf>&);
template void Net<float>::BeginForward(RunContext&, int);
template void Net<double>::BeginForward(RunContext&, int);
template void Net<float>::BeginBackward(int, int);
template void Net<double>::BeginBackward(int, int);

}  // namespace carafe
