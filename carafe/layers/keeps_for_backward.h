// Layers that keep something of Forward which nobody but their own Backward reads.
#pragma once

namespace carafe {

class KeepsForBackward {
 public:
  virtual ~KeepsForBackward() = default;
  // False: no Backward will come, so it need not.
  virtual void KeepForBackward(bool keep) = 0;
};

}  // namespace carafe
