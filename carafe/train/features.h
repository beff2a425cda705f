// `carafe extract_features`: blobs of a net, row by row, as records of databases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/core/stream.h"
#include "carafe/net/net.h"

namespace carafe {

struct FeatureTarget {
  std::string blob;      // its name in the net
  std::string database;  // the path to write, which must not exist
};

// Runs `batches` passes and writes row r of the run as the Datum (float_data, no label) with key
// "%010d" % r; a row of shape (C, H, W) keeps it, any other becomes as many channels. A database
// appears under its name when all are complete. Returns the rows written to each. Throws
// ConfigError for a blob that the net does not have, DataError for what cannot be written.
std::vector<int64_t> ExtractFeatures(Stream& stream, Net<float>& net,
                                     const std::vector<FeatureTarget>& targets, int64_t batches,
                                     const std::string& backend);

}  // namespace carafe
