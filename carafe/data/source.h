// A data set as numbered records. One file per kind of storage implements it; OpenSource chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "carafe/data/owner.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Views into the source's own memory: valid as long as the source.
struct Record {
  std::string_view key;
  std::string_view value;
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

std::unique_ptr<Source> OpenLmdb(const std::string& path);

}  // namespace carafe
