// IDX files, the format of MNIST and its relatives, plain or gzipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carafe {

struct IdxImages {
  int64_t count = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // count x height x width
};

// Both throw DataError: for a file that cannot be read, is of another kind, or is shorter or longer
// than its header says.
IdxImages ReadIdxImages(const std::string& path);
std::vector<uint8_t> ReadIdxLabels(const std::string& path);

// Writes `database` (backend: lmdb or leveldb) as Caffe's convert_mnist_data does: keys 00000000,
// 00000001, ..., Datum records of 1 x height x width bytes with their label. Returns the number of
// records.
int64_t ConvertMnist(const std::string& images, const std::string& labels,
                     const std::string& database, const std::string& backend = "lmdb");

}  // namespace carafe
