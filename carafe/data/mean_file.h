// The mean image of a data set (mean.binaryproto): read, written, computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/data/database.h"

namespace carafe {

struct MeanImage {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> values;  // channels x height x width
};

MeanImage ReadMeanFile(const std::string& path);  // DataError
// In Caffe's old form: num, channels, height, width and floats.
void WriteMeanFile(const MeanImage& mean, const std::string& path);

// Over all Datum records, encoded ones as they are stored. DataError for a record of another size.
MeanImage ComputeMean(const Database& database);

}  // namespace carafe
