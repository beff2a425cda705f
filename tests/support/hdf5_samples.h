// HDF5 files for tests, of forms that the library reads but does not write itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carafe {

enum class Stored { kUint8, kInt16BigEndian, kInt32, kInt64, kFloat16, kFloat32, kFloat64 };

// Each call opens `path`, making it if it is not there, and adds one dataset to its root group or
// to a group, which is made too: "data/conv1/0". They abort where libhdf5 refuses.
void AddHdf5Numbers(const std::string& path, const std::string& name,
                    const std::vector<int64_t>& shape, const std::vector<double>& values,
                    Stored stored = Stored::kFloat32, bool gzip = false);
void AddHdf5Strings(const std::string& path, const std::string& name,
                    const std::vector<int64_t>& shape);
void AddHdf5Text(const std::string& path, const std::string& name, const std::string& text);
// A shape of which nothing was ever written but `values` at its very end, in bytes; the file stays
// small. Empty `values`: not even those.
void AddHdf5Claim(const std::string& path, const std::string& name,
                  const std::vector<int64_t>& shape, const std::vector<double>& values = {});

}  // namespace carafe
