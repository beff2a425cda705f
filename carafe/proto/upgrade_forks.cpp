// Names that forks have for what Caffe can do.
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

// A convolution of each channel by itself: Caffe's with as many groups.
bool UpgradeDepthwise(LayerParameter* layer) {
  if (layer->type() != "DepthwiseConvolution" && layer->type() != "ConvolutionDepthwise")
    return false;
  layer->set_type("Convolution");
  ConvolutionParameter* param = layer->mutable_convolution_param();
  if (!param->has_group()) param->set_group(param->num_output());
  return true;
}

bool UpgradeCeilMode(LayerParameter* layer) {
  if (!layer->has_pooling_param()) return false;
  const auto fork = ForkPart<ForkPoolingParameter>(layer->pooling_param());
  if (!fork.has_ceil_mode()) return false;
  layer->mutable_pooling_param()->set_round_mode(fork.ceil_mode() ? PoolingParameter::CEIL
                                                                  : PoolingParameter::FLOOR);
  return true;
}

bool UpgradeHole(LayerParameter* layer) {
  if (!layer->has_convolution_param()) return false;
  const auto fork = ForkPart<ForkConvolutionParameter>(layer->convolution_param());
  if (!fork.has_hole() || layer->convolution_param().dilation_size() > 0) return false;
  layer->mutable_convolution_param()->add_dilation(fork.hole());
  return true;
}

}  // namespace

bool UpgradeForkNames(NetParameter* net) {
  bool changed = false;
  for (LayerParameter& layer : *net->mutable_layer()) {
    changed = UpgradeDepthwise(&layer) || changed;
    changed = UpgradeCeilMode(&layer) || changed;
    changed = UpgradeHole(&layer) || changed;
  }
  return changed;
}

}  // namespace carafe
