#include "carafe/proto/upgrade.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "carafe/base/log.h"
#include "carafe/proto/batch_norm_dialect.h"

namespace carafe {
namespace {

// input_shape goes before input_dim, which can only say four axes.
BlobShape InputShape(const NetParameter& net, int i) {
  if (net.input_shape_size() > 0) return net.input_shape(i);
  BlobShape shape;
  for (int axis = 0; axis < 4; ++axis) shape.add_dim(net.input_dim(4 * i + axis));
  return shape;
}

void CheckInputs(const OldNet& net) {
  const NetParameter& param = *net.param;
  const int inputs = param.input_size(), shapes = param.input_shape_size(),
            dims = param.input_dim_size();
  if (shapes > 0 && shapes != inputs) {
    throw ConfigError(net.At("input_shape"),
                      fmt::format("input_shape is given {} times for {} inputs", shapes, inputs),
                      "give one input_shape per input");
  }
  if (shapes == 0 && dims > 0 && dims != 4 * inputs) {
    throw ConfigError(net.At("input_dim"),
                      fmt::format("input_dim is given {} times for {} inputs", dims, inputs),
                      "give four per input (number, channels, height, width), or use input_shape");
  }
}

}  // namespace

bool UpgradeInputs(OldNet& net) {
  NetParameter& param = *net.param;
  if (param.input_size() == 0) return false;
  CheckInputs(net);
  // Weights files of old list the inputs without their shapes: nothing to build from.
  if (param.input_shape_size() > 0 || param.input_dim_size() > 0) {
    LayerParameter* layer = param.add_layer();
    layer->set_name("input");
    layer->set_type("Input");
    for (int i = 0; i < param.input_size(); ++i) {
      layer->add_top(param.input(i));
      *layer->mutable_input_param()->add_shape() = InputShape(param, i);
    }
    for (int i = param.layer_size() - 1; i > 0; --i) param.mutable_layer()->SwapElements(i, i - 1);
    net.layer_places.insert(net.layer_places.begin(), net.place.Only("input"));
  }
  param.clear_input();
  param.clear_input_shape();
  param.clear_input_dim();
  return true;
}

bool UpgradeBatchNorm(NetParameter* net) {
  bool changed = false;
  for (LayerParameter& layer : *net->mutable_layer()) {
    changed = ReorderBatchNormParams(&layer) || changed;
    if (layer.type() != "BatchNorm" || layer.param_size() != 3) continue;
    for (ParamSpec& param : *layer.mutable_param()) {
      changed = changed || param.lr_mult() != 0;  // without a rate the decay changes nothing
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
  return changed;
}

NetUpgrade UpgradeNet(NetParameter* param, const std::string& file, const Place& place) {
  OldNet net{param, file, place};
  const bool old_list = param->layers_size() > 0;
  if (old_list && param->layer_size() > 0) {
    throw ConfigError(net.At("layers"), "old `layers` and new `layer` entries are mixed",
                      "write all of them as `layer { ... }`");
  }
  const int count = old_list ? param->layers_size() : param->layer_size();
  for (int i = 0; i < count; ++i) {
    net.layer_places.push_back(place.Child(old_list ? "layers" : "layer", i));
  }
  std::vector<std::string> steps;
  if (UpgradeV0(net)) steps.emplace_back("V0 layers");
  if (UpgradeDataFields(net)) steps.emplace_back("transformations among the data settings");
  if (UpgradeV1(net) && steps.empty()) steps.emplace_back("V1 layers");
  if (UpgradeInputs(net)) steps.emplace_back("input fields");
  if (UpgradeBatchNorm(param))
    steps.emplace_back("param entries of BatchNorm (statistics first, with lr_mult 0)");
  if (UpgradeForkNames(param)) steps.emplace_back("names that forks have for types and fields");
  if (!steps.empty()) {
    LogInfo("{}: brought up to date from an old form: {}", file, fmt::join(steps, ", "));
  }
  if (!net.complete) LogWarning("{}: not all of the old form could be kept, see above", file);
  return {!steps.empty(), net.complete, std::move(net.layer_places)};
}

}  // namespace carafe
