// `carafe check`: validates a net or solver file without running it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carafe/proto/messages.h"

namespace carafe {

struct CheckReport {
  std::string kind;                // "net", "solver", "label map"
  std::vector<std::string> lines;  // what was found, for people
};

struct CheckSettings {
  std::vector<int64_t> data_shape;  // of missing data: empty, or channels, height, width
  std::optional<Phase> phase;       // of a net; absent: every one
  std::vector<std::string> stages;  // of a net; empty: none, and each that a rule names
};

// Builds the nets of the file, shapes only. Of a solver its train and test nets, each of which must
// be right. Of a net every phase, without stages and with each stage that its rules name: what
// cannot be built is reported, and an error only if nothing can, or if `phase` or `stages` ask for
// it. Data that are not there are a remark, not an error, where the layer or `data_shape` says
// their size. Throws ConfigError or DataError.
CheckReport CheckFile(const std::string& path, const CheckSettings& settings = {});

// Whether a text is a net's: by the names of its outermost fields.
bool LooksLikeNet(const std::string& text);

}  // namespace carafe
