// Layer types that forks of Caffe have and Carafe has not, so that an error can name the fork.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "carafe/base/error.h"

namespace carafe {

struct ForkLayer {
  std::string_view type;  // as `layer` has it, or `layers` (V1) in capitals
  std::string_view fork;
  std::string_view fix;
};

// Null for a type of Caffe's own, one that is built here, or one that is not known.
const ForkLayer* FindForkLayer(std::string_view type);
std::span<const ForkLayer> ForkLayers();

// `layer "roi": ROIAlign is a layer of Mask R-CNN`, with what to do.
[[noreturn]] void ThrowForkLayer(const Location& at, const std::string& name,
                                 const ForkLayer& layer);

}  // namespace carafe
