// What a net reports while it runs. All calls come from the thread that runs the net.
#pragma once

#include "carafe/layers/layer.h"

namespace carafe {

// See exchange/exchange.h for what these are for.
template <typename T>
class ParamEvents {
 public:
  virtual ~ParamEvents() = default;
  virtual void BeforeRead(int param) = 0;     // a layer is about to read it
  virtual void GradientFinal(int param) = 0;  // no more will be added to its gradient in this pass
  // For parameters of Net::RequestFactors, instead of adding to the gradient: left^T right is what
  // one layer adds in this pass. Called in every pass (iter_size of them make a step) once for each
  // layer that uses the parameter, before the parameter's GradientFinal: the gradient of a step is
  // the sum over all calls. The factors are gone when the call returns.
  virtual void FactorsReady(int param, const Factors<T>& factors);
};

// Called before and after each layer runs. Backward reports layers that need none, too.
class LayerEvents {
 public:
  enum When { kBeforeForward, kAfterForward, kBeforeBackward, kAfterBackward };
  virtual ~LayerEvents() = default;
  virtual void OnLayer(When when, int layer) = 0;
};

}  // namespace carafe
