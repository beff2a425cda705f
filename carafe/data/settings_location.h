// Where settings were written, so that an error found in data/ names the layer and points into its
// file.
#pragma once

#include <string>
#include <string_view>

#include "carafe/base/error.h"
#include "carafe/proto/text.h"

namespace carafe {

struct SettingsLocation {
  std::string title;  // layer "mnist" (Data)
  Place place;        // of the message that the paths below are relative to

  // Throws ConfigError at the field `path`, e.g. "transform_param.crop_size".
  [[noreturn]] void Fail(std::string_view path, const std::string& what,
                         const std::string& fix) const {
    throw ConfigError(place.Find(path), title, what, fix);
  }
  void Check(bool condition, std::string_view path, const std::string& what,
             const std::string& fix) const {
    if (!condition) Fail(path, what, fix);
  }
};

}  // namespace carafe
