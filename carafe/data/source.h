// A data set as numbered records. One file per kind of storage implements it; OpenSource chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "carafe/data/owner.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Views into the source's own memory, or into `owner` where the source has none to show: valid as
// long as both the source and this record (or a copy of it).
struct Record {
  std::string_view key;
  std::string_view value;
  std::shared_ptr<const std::string> owner = nullptr;
};

// Read-only after construction. Read may be called by any number of threads at once; nobody may
// write to the storage meanwhile.
class Source {
 public:
  virtual ~Source() = default;
  virtual const std::string& name() const = 0;  // the path, as it was given
  virtual int64_t size() const = 0;             // at least 1
  // Record `index` in the order of keys (of lines, for lists), 0 <= index < size(). Throws
  // DataError with position and key for a record that cannot be read.
  virtual Record Read(int64_t index) const = 0;
};

// The source that data_param names. `owner` stands for the layer whose data_param this is. Throws
// ConfigError for settings, DataError for what the path holds.
std::unique_ptr<Source> OpenSource(const DataParameter& param, const SettingsOwner& owner);

// `backend` as in Caffe's flags: lmdb or leveldb. Throws ConfigError for another.
std::unique_ptr<Source> OpenDatabase(const std::string& backend, const std::string& path);

std::unique_ptr<Source> OpenLmdb(const std::string& path);
// Never writes and takes no lock: any number of processes may read one copy. Those of one process
// that name the same folder share one handle. Counting the records reads them all, so that happens
// at the first call of size or of Read(index > 0).
std::unique_ptr<Source> OpenLevelDb(const std::string& path);
// The lines of a text file that are not blank, without white space at their ends; key: "line 7".
std::unique_ptr<Source> OpenList(const std::string& path);

}  // namespace carafe
