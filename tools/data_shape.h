// The flag --data_shape of the commands that validate nets without their data.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {

struct DataShapeFlag {
  std::vector<int64_t> dims;  // empty, or channels, height, width

  void Declare(CLI::App& app) {
    app.add_option("--data_shape", dims,
                   "CHANNELS,HEIGHT,WIDTH of records whose database is not there; default: by "
                   "crop_size")
        ->delimiter(',');
  }
  void Check() const {
    const bool positive = std::ranges::all_of(dims, [](int64_t dim) { return dim > 0; });
    if (positive && (dims.empty() || dims.size() == 3)) return;
    throw ConfigError("--data_shape needs three numbers above 0", "e.g. --data_shape=3,224,224");
  }
};

}  // namespace carafe
