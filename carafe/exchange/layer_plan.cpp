#include "carafe/exchange/layer_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr char kForm[] = "write LAYER:SCHEME for each layer, with commas, e.g. fc6:sfb,fc7:dense";

LayerScheme SchemeOf(const std::string& name, const std::string& entry) {
  for (const LayerScheme scheme : {LayerScheme::kDense, LayerScheme::kFactors})
    if (NameOf(scheme) == name) return scheme;
  throw ConfigError(fmt::format("--plan: \"{}\" names no scheme", entry),
                    "the schemes are dense and sfb, e.g. fc6:sfb,fc7:dense");
}

}  // namespace

std::string NameOf(LayerScheme scheme) { return scheme == LayerScheme::kDense ? "dense" : "sfb"; }

LayerPlan LayerPlan::Parse(const std::string& text) {
  LayerPlan plan;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const size_t colon = entry.rfind(':');  // a layer's name may have one
    if (colon == std::string::npos || colon == 0)
      throw ConfigError(fmt::format("--plan: \"{}\" is not LAYER:SCHEME", entry), kForm);
    const std::string layer = entry.substr(0, colon);
    const LayerScheme scheme = SchemeOf(entry.substr(colon + 1), entry);
    if (plan.Find(layer))
      throw ConfigError(fmt::format("--plan names layer \"{}\" twice", layer), kForm);
    plan.layers.emplace_back(layer, scheme);
    begin = end + 1;
  }
  return plan;
}

std::string LayerPlan::Text() const {
  std::string text;
  for (const auto& [layer, scheme] : layers)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", layer, NameOf(scheme));
  return text;
}

std::optional<LayerScheme> LayerPlan::Find(const std::string& layer) const {
  for (const auto& [name, scheme] : layers)
    if (name == layer) return scheme;
  return std::nullopt;
}

}  // namespace carafe
