// The flow of parameters where one worker trains alone and nobody looks at gradients.
#pragma once

#include <memory>
#include <vector>

#include "carafe/solvers/flow_setup.h"
#include "carafe/solvers/parameter_flow.h"

namespace carafe {

// The update of step i runs within the backward pass of step i: in GradientFinal, on the thread of
// the only worker, as soon as the gradient is complete, while it still is in the cache. Gradients
// that come later take the same memory (GradientLife::kBackward), so that few of them exist at a
// time. The weights of a layer that can hand its gradient over in parts (Layer::HandOverParts) are
// updated part by part, on the threads of that layer's Backward, and never have a whole gradient.
//
// The results are the bits of UpdateWhenRead, except for matrices in parts at more than 8 rows,
// whose sums may be added in another order. An update cannot be taken back: a step that is to be
// discarded must end before its backward pass.
template <typename T>
class UpdateInBackward final : public ParameterFlow<T> {
 public:
  explicit UpdateInBackward(const FlowSetup<T>& setup);
  ~UpdateInBackward() override;  // gradients stay whole from now on

  void BeforeRead(int, int) override {}  // every update of the last step is done
  void FinishReads(int) override {}
  void ForwardDone(int) override {}
  void BeginUpdates(const StepStart& step) override;
  void GradientFinal(int worker, int param) override;
  void Cancel() override {}
  void Drain() override {}
  bool CanCancelAfterBackward() const override { return false; }
  Exchange<T>& exchange() override { return *votes_; }
  const std::vector<ParamInfo<T>>& exchanged() const override { return nothing_; }

 private:
  bool MayHandOverParts(int param) const;

  Net<T>& net_;
  Stream& stream_;
  Updater<T>& updater_;
  std::vector<bool> in_parts_;  // by parameter: updated part by part, by its layer
  StepNumbers<T> numbers_;      // of the step under way
  const std::vector<ParamInfo<T>> nothing_;
  std::unique_ptr<Exchange<T>> votes_;  // without parameters
};

}  // namespace carafe
