#include "carafe/net/net_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "carafe/base/file.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/finite.h"
#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

// Infinite numbers have a meaning in some layers, e.g. as the value of a filler.
void CheckNumbers(const LayerText& layer) {
  CheckFinite(layer.param, layer.place, Infinite::kAllowed);
  for (int i = 0; i < layer.param.param_size(); ++i) {
    CheckFinite(layer.param.param(i), layer.place.Child("param", i), Infinite::kRefused);
  }
  for (const float weight : layer.param.loss_weight()) {
    if (std::isfinite(weight)) continue;
    throw ConfigError(layer.place.Find("loss_weight"), fmt::format("loss_weight is {}", weight),
                      "give a finite number");
  }
}

}  // namespace

std::vector<LayerText> NetSpec::Layers() const {
  std::vector<LayerText> layers;
  for (int i = 0; i < param.layer_size(); ++i) {
    const bool own = static_cast<size_t>(i) < layer_places.size();
    layers.push_back(
        {param.layer(i), own ? layer_places[static_cast<size_t>(i)] : place.Child("layer", i)});
  }
  return layers;
}

void Upgrade(NetSpec* spec, const std::string& file) {
  spec->layer_places = UpgradeNet(&spec->param, file, spec->place).layer_places;
  for (const LayerText& layer : spec->Layers()) CheckNumbers(layer);
}

NetSpec ParseNetSpec(const std::string& text, const std::string& file) {
  NetSpec spec;
  spec.place = ParseText(text, file, &spec.param);
  Upgrade(&spec, file);
  return spec;
}

NetSpec LoadNetSpec(const std::string& path) { return ParseNetSpec(ReadFile(path), path); }

bool StateMeetsRule(const NetState& state, const NetStateRule& rule) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto has_stage = [&](const std::string& stage) {
    return std::ranges::find(state.stage(), stage) != state.stage().end();
  };
  return std::ranges::all_of(rule.stage(), has_stage) &&
         std::ranges::none_of(rule.not_stage(), has_stage);
}

std::vector<LayerText> FilterLayers(const std::vector<LayerText>& layers, const NetState& state) {
  std::vector<LayerText> kept;
  const auto met = [&](const NetStateRule& rule) { return StateMeetsRule(state, rule); };
  for (const LayerText& layer : layers) {
    const LayerParameter& param = layer.param;
    if (param.include_size() > 0 && param.exclude_size() > 0) {
      LayerSpec(param, state.phase(), layer.place)
          .Fail("exclude", "include and exclude rules cannot be mixed",
                "use only include rules or only exclude rules");
    }
    const bool in = param.include_size() > 0 ? std::ranges::any_of(param.include(), met)
                                             : std::ranges::none_of(param.exclude(), met);
    if (in) kept.push_back(layer);
  }
  return kept;
}

}  // namespace carafe
