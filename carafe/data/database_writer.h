// Makes a database of records; one file per kind of storage implements it, NewDatabaseWriter
// chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace carafe {

// The database appears under its name when Finish returns; whatever goes wrong before (or no Finish
// at all) leaves nothing behind. For one thread. All functions throw DataError.
class DatabaseWriter {
 public:
  virtual ~DatabaseWriter() = default;
  // Keys of 1 to 511 bytes, each once; fastest in ascending order.
  virtual void Put(std::string_view key, std::string_view value) = 0;
  virtual void Finish() = 0;
  virtual int64_t records() const = 0;
};

// They refuse a path that exists.
std::unique_ptr<DatabaseWriter> NewLmdbWriter(const std::string& path);
std::unique_ptr<DatabaseWriter> NewLevelDbWriter(const std::string& path);
// `backend` as in Caffe's flags: lmdb or leveldb; ConfigError for another.
std::unique_ptr<DatabaseWriter> NewDatabaseWriter(const std::string& backend,
                                                  const std::string& path);

}  // namespace carafe
