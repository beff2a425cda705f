// Whose settings are being judged, so that an error found here names the layer and points into its
// file.
#pragma once

#include <string>
#include <string_view>

#include "carafe/base/error.h"
#include "carafe/proto/text.h"

namespace carafe {

struct SettingsOwner {
  std::string title;  // layer "mnist" (Data)
  Place place;        // of the message whose fields the paths below name

  [[noreturn]] void Fail(std::string_view path, const std::string& what,
                         const std::string& fix) const {
    throw ConfigError(place.Find(path), title.empty() ? what : title + ": " + what, fix);
  }
  void Check(bool condition, std::string_view path, const std::string& what,
             const std::string& fix) const {
    if (!condition) Fail(path, what, fix);
  }
};

}  // namespace carafe
