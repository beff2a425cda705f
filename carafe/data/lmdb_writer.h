// Makes an LMDB that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace carafe {

// Writes to the folder path.tmp.<pid>; Finish gives it its name. Whatever goes wrong before (or no
// Finish at all) leaves nothing behind. For one thread. All functions throw DataError.
class LmdbWriter {
 public:
  explicit LmdbWriter(const std::string& path);  // refuses a path that exists
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  ~LmdbWriter();

  // Keys of 1 to 511 bytes, each once; fastest in ascending order.
  void Put(std::string_view key, std::string_view value);
  void Finish();
  int64_t records() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carafe
