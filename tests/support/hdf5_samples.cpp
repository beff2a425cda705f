#include "tests/support/hdf5_samples.h"

#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace carafe {
namespace {

hid_t Must(hid_t id) {
  if (id < 0) std::abort();
  return id;
}

hid_t TypeOf(Stored stored) {
  switch (stored) {
    case Stored::kUint8:
      return Must(H5Tcopy(H5T_STD_U8LE));
    case Stored::kInt16BigEndian:
      return Must(H5Tcopy(H5T_STD_I16BE));
    case Stored::kInt32:
      return Must(H5Tcopy(H5T_STD_I32LE));
    case Stored::kInt64:
      return Must(H5Tcopy(H5T_STD_I64LE));
    case Stored::kFloat16: {  // IEEE half, as numpy's float16
      const hid_t half = Must(H5Tcopy(H5T_IEEE_F32LE));
      Must(H5Tset_fields(half, 15, 10, 5, 0, 10));
      Must(H5Tset_size(half, 2));
      Must(H5Tset_ebias(half, 15));
      return half;
    }
    case Stored::kFloat32:
      return Must(H5Tcopy(H5T_IEEE_F32LE));
    case Stored::kFloat64:
      break;
  }
  return Must(H5Tcopy(H5T_IEEE_F64LE));
}

// Takes over `type`, `space` and `settings`.
void Add(const std::string& path, const std::string& name, hid_t type, hid_t space, hid_t settings,
         hid_t memory_type, const void* values, hid_t memory_space = H5S_ALL,
         hid_t file_space = H5S_ALL) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const bool there = access(path.c_str(), F_OK) == 0;
  const hid_t file = Must(there ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t links = Must(H5Pcreate(H5P_LINK_CREATE));
  Must(H5Pset_create_intermediate_group(links, 1));
  const hid_t data =
      Must(H5Dcreate2(file, name.c_str(), type, space, links, settings, H5P_DEFAULT));
  if (values != nullptr) {
    Must(H5Dwrite(data, memory_type, memory_space, file_space, H5P_DEFAULT, values));
  }
  H5Dclose(data);
  H5Pclose(links);
  H5Pclose(settings);
  H5Sclose(space);
  H5Tclose(type);
  Must(H5Fclose(file));
}

hid_t SpaceOf(const std::vector<int64_t>& shape) {
  if (shape.empty()) return Must(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return Must(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

}  // namespace

void AddHdf5Numbers(const std::string& path, const std::string& name,
                    const std::vector<int64_t>& shape, const std::vector<double>& values,
                    Stored stored, bool gzip) {
  const hid_t settings = Must(H5Pcreate(H5P_DATASET_CREATE));
  if (gzip) {
    std::vector<hsize_t> chunk(shape.begin(), shape.end());
    chunk[0] = std::max<hsize_t>(1, chunk[0] / 2);
    Must(H5Pset_chunk(settings, static_cast<int>(chunk.size()), chunk.data()));
    Must(H5Pset_deflate(settings, 9));
  }
  Add(path, name, TypeOf(stored), SpaceOf(shape), settings, H5T_NATIVE_DOUBLE,
      values.empty() ? nullptr : values.data());
}

void AddHdf5Strings(const std::string& path, const std::string& name,
                    const std::vector<int64_t>& shape) {
  const hid_t type = Must(H5Tcopy(H5T_C_S1));
  Must(H5Tset_size(type, 4));
  Add(path, name, type, SpaceOf(shape), Must(H5Pcreate(H5P_DATASET_CREATE)), type, nullptr);
}

void AddHdf5Text(const std::string& path, const std::string& name, const std::string& text) {
  const hid_t type = Must(H5Tcopy(H5T_C_S1));
  Must(H5Tset_size(type, H5T_VARIABLE));
  const char* pointer = text.c_str();
  Add(path, name, type, SpaceOf({}), Must(H5Pcreate(H5P_DATASET_CREATE)), type, &pointer);
}

void AddHdf5Claim(const std::string& path, const std::string& name,
                  const std::vector<int64_t>& shape, const std::vector<double>& values) {
  const hid_t settings = Must(H5Pcreate(H5P_DATASET_CREATE));
  std::vector<hsize_t> chunk(shape.size(), 1);
  chunk[0] = static_cast<hsize_t>(std::min<int64_t>(1024, shape[0]));
  Must(H5Pset_chunk(settings, static_cast<int>(chunk.size()), chunk.data()));
  const hid_t space = SpaceOf(shape);
  std::vector<hsize_t> start(shape.begin(), shape.end()), count(shape.size(), 1);
  for (hsize_t& at : start) --at;
  start[0] = static_cast<hsize_t>(shape[0]) - std::max<size_t>(1, values.size());
  count[0] = std::max<size_t>(1, values.size());
  Must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
  const hid_t memory = Must(H5Screate_simple(1, count.data(), nullptr));
  Add(path, name, TypeOf(Stored::kUint8), Must(H5Scopy(space)), settings, H5T_NATIVE_DOUBLE,
      values.empty() ? nullptr : values.data(), memory, space);
  H5Sclose(memory);
  H5Sclose(space);
}

}  // namespace carafe
