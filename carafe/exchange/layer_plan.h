// Which scheme carries the weight gradient of a layer: what --plan=fc6:sfb,fc7:dense names.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace carafe {

enum class LayerScheme {
  kDense,    // the gradient is summed over all ranks: "dense"
  kFactors,  // its factors go to all ranks, each of which multiplies them: "sfb"
};
std::string NameOf(LayerScheme scheme);

struct LayerPlan {
  std::vector<std::pair<std::string, LayerScheme>> layers;  // by name, each once

  // Throws ConfigError for anything but "LAYER:SCHEME,LAYER:SCHEME..".
  static LayerPlan Parse(const std::string& text);
  std::string Text() const;
  std::optional<LayerScheme> Find(const std::string& layer) const;  // none: not named
};

}  // namespace carafe
