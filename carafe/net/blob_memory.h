// The memory of a net's blobs while it runs: every blob its own, or shared over time by a plan.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "carafe/net/memory_plan.h"

namespace carafe {

// Used by the thread that runs the net.
template <typename T>
class BlobMemory {
 public:
  // The graph outlives this.
  explicit BlobMemory(const Graph<T>& graph) : graph_(graph) {}

  // How memory is shared from the next pass on, with the pool from which it comes and the blobs
  // that keep theirs. Apply follows.
  void Share(MemorySharing sharing, std::shared_ptr<MemoryPool> pool, std::set<int> keep);
  // Plans and takes all blobs to the pool, or away from it; lets layers know what they must keep.
  void Apply(const Parameters<T>& params);

  // Before a pass over layers [first, last]. Throw ConfigError where shared memory does not allow
  // that pass.
  void BeginForward(RunContext& run, int first);
  void BeginBackward(int first, int last);
  // The state of a BeginForward that no Backward follows.
  void ForbidBackward() { forward_done_ = false; }
  // Gives scratch memory and these halves back.
  void Release(const std::vector<BlobHalf>& halves);

  MemorySharing sharing() const { return sharing_; }
  const MemoryPlan& plan() const { return plan_; }
  const std::shared_ptr<Buffer>& scratch() const { return scratch_; }

 private:
  void SetPool(BlobHalf half, const std::shared_ptr<MemoryPool>& pool);

  const Graph<T>& graph_;
  MemorySharing sharing_ = MemorySharing::kNone;
  std::shared_ptr<MemoryPool> pool_;  // null where nothing is shared
  std::set<int> keep_;
  MemoryPlan plan_;
  std::shared_ptr<Buffer> scratch_ = std::make_shared<Buffer>();  // of layers, while they run
  bool forward_done_ = false;  // while memory is shared: Backward finds what it needs
};

}  // namespace carafe
