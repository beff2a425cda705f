#include "carafe/proto/upgrade.h"

#include "carafe/proto/batch_norm_dialect.h"

namespace carafe {

bool UpgradeBatchNorm(NetParameter* net) {
  bool changed = false;
  for (LayerParameter& layer : *net->mutable_layer()) {
    changed = ReorderBatchNormParams(&layer) || changed;
    if (layer.type() != "BatchNorm" || layer.param_size() != 3) continue;
    for (ParamSpec& param : *layer.mutable_param()) {
      changed = changed || param.lr_mult() != 0 || param.decay_mult() != 0;
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
  return changed;
}

}  // namespace carafe
