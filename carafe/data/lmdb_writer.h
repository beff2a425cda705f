// Makes an LMDB that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "carafe/data/database_writer.h"

namespace carafe {

class LmdbWriter final : public DatabaseWriter {
 public:
  explicit LmdbWriter(const std::string& path);  // refuses a path that exists
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  ~LmdbWriter() override;

  void Put(std::string_view key, std::string_view value) override;
  void Finish() override;
  int64_t records() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carafe
