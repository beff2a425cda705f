// `carafe check`: judges a net or solver file without running it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carafe {

struct CheckReport {
  std::string kind;                // "net", "solver"
  std::vector<std::string> lines;  // what was found, for people
};

// Builds every net of the file in every phase it is meant for (a net: TRAIN and TEST; a solver: its
// train and test nets), shapes only. Data that are not there are a remark, not an error, where the
// layer or `data_shape` (empty, or channels, height, width) says their size. Throws ConfigError or
// DataError at the first thing that cannot work.
CheckReport CheckFile(const std::string& path, const std::vector<int64_t>& data_shape = {});

// Whether a text is a net's: by the names of its outermost fields.
bool LooksLikeNet(const std::string& text);

}  // namespace carafe
