// A database of keys and values: LMDB or LevelDB. One file per kind implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "carafe/data/settings_location.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Views into the database's own memory, or into `owner` if the database has to copy the value:
// valid as long as both the database and this record (or a copy of it) exist.
struct Record {
  std::string_view key;
  std::string_view value;
  std::shared_ptr<const std::string> owner = nullptr;
};

// Read-only after construction. Any number of threads may call Read at once; nobody may write to
// the files meanwhile.
class Database {
 public:
  virtual ~Database() = default;
  virtual const std::string& name() const = 0;  // the path, as it was given
  virtual int64_t size() const = 0;             // number of records, at least 1
  // Record `index` in key order, 0 <= index < size(). Throws DataError with position and key for a
  // record that cannot be read.
  virtual Record Read(int64_t index) const = 0;
};

// The database that data_param names. `location` is that of the layer. Throws ConfigError for
// settings, DataError for what the path holds.
std::unique_ptr<Database> OpenDatabase(const DataParameter& param,
                                       const SettingsLocation& location);

// `backend` as in Caffe's flags: lmdb or leveldb. Throws ConfigError for another.
std::unique_ptr<Database> OpenDatabase(const std::string& backend, const std::string& path);

std::unique_ptr<Database> OpenLmdb(const std::string& path);
// Never writes and takes no lock: any number of processes may read one copy. Those of one process
// that name the same folder share one handle. Counting the records reads them all, so that happens
// at the first call of size or of Read(index > 0).
std::unique_ptr<Database> OpenLevelDb(const std::string& path);

}  // namespace carafe
