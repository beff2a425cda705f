// Makes a LevelDB that appears under its name only when it is complete.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "carafe/data/database_folder.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/leveldb_store.h"

namespace carafe {

class LevelDbWriter final : public DatabaseWriter {
 public:
  explicit LevelDbWriter(const std::string& path);  // refuses a path that exists
  LevelDbWriter(const LevelDbWriter&) = delete;
  LevelDbWriter& operator=(const LevelDbWriter&) = delete;

  void Put(std::string_view key, std::string_view value) override;
  void Finish() override;
  int64_t records() const override { return records_; }

 private:
  void Check(const std::string& error) const;

  PendingFolder folder_;
  std::unique_ptr<LevelDbAppender> store_;  // after folder_: closed before that is removed
  int64_t records_ = 0;
  std::string last_key_;
};

}  // namespace carafe
