// HDF5 files: the one place that calls libhdf5. Names are paths from the root group, parts divided
// by slashes ("data/conv1/0"). Whatever fails is a DataError with file and dataset; libhdf5 itself
// prints nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carafe/core/shape.h"

namespace carafe {

// Whether the content is HDF5, whatever the name; false for a file that cannot be read, too.
bool IsHdf5(const std::string& path);

// One open file, used by one thread at a time. Several files may be used by several threads: every
// call holds the one lock over libhdf5, which need not be built for threads. T is float, double,
// uint8_t, int32_t, int64_t or uint64_t; stored values of any width and byte order are converted.
class Hdf5File {
 public:
  enum class Mode { kRead, kCreate, kAppend };  // kCreate empties a file that is there

  explicit Hdf5File(const std::string& path, Mode mode = Mode::kRead);
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;
  ~Hdf5File();
  // Hands all to the system. A writer calls it before it trusts the file: the destructor keeps
  // quiet about what fails.
  void Close();

  const std::string& path() const { return path_; }
  bool HasGroup(const std::string& name) const;
  bool HasDataset(const std::string& name) const;
  std::vector<std::string> Members(const std::string& group) const;  // in the order of names

  // Throws for a dataset that is missing, or holds something else than integers or floats.
  Shape DatasetShape(const std::string& name) const;
  // Throws where the whole file is far too small for so many values of the dataset, even
  // compressed: for shapes that would take all memory for nothing. Reading calls it.
  void CheckHolds(const std::string& name, int64_t values) const;
  template <typename T>
  std::vector<T> Read(const std::string& name) const;
  // Rows first .. first + rows - 1 along axis 0; `to` takes exactly their values.
  template <typename T>
  void ReadRows(const std::string& name, int64_t first, int64_t rows, std::span<T> to) const;
  std::string ReadString(const std::string& name) const;  // fixed or variable length

  // The groups on the way must be there.
  void CreateGroup(const std::string& name);
  template <typename T>
  void Write(const std::string& name, const Shape& shape, std::span<const T> values);
  void WriteString(const std::string& name, const std::string& text);
  // Adds rows (axis 0) at the end of a dataset, which is made if it is not there; the other axes
  // must be those that it has.
  template <typename T>
  void AppendRows(const std::string& name, const Shape& shape, std::span<const T> values);

 private:
  const std::string path_;
  int64_t file_ = -1;  // hid_t
};

}  // namespace carafe
