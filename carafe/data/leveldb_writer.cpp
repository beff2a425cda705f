// Writes a LevelDB.
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/data/database_folder.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/leveldb_store.h"

namespace carafe {
namespace {

constexpr size_t kMaxKeyBytes = 511;  // LMDB's limit, so that both take the same keys

class LevelDbWriter final : public DatabaseWriter {
 public:
  explicit LevelDbWriter(const std::string& path) : folder_(path) {
    std::string error;
    store_ = std::make_unique<LevelDbAppender>(folder_.temporary(), &error);
    Check(error);
  }

  void Put(std::string_view key, std::string_view value) override {
    if (key.empty() || key.size() > kMaxKeyBytes) {
      throw DataError(folder_.path(), records_, fmt::format("a key has {} bytes", key.size()),
                      "use keys of 1 to 511 bytes");
    }
    const bool ascends = key > last_key_;
    if (!ascends && store_->Has(key)) {
      throw DataError(folder_.path(), records_,
                      fmt::format("the key \"{}\" was written before", key),
                      "give every record a key of its own");
    }
    Check(store_->Put(key, value));
    if (ascends) last_key_ = key;
    ++records_;
  }

  void Finish() override {
    Check(store_->Close());
    store_.reset();
    folder_.Commit();
  }

  int64_t records() const override { return records_; }

 private:
  void Check(const std::string& error) const {
    if (error.empty()) return;
    throw DataError(folder_.path(), -1, fmt::format("writing failed: {}", error),
                    "check the path, its permissions and the space on that disk");
  }

  PendingFolder folder_;
  std::unique_ptr<LevelDbAppender> store_;  // after folder_: closed before that is removed
  int64_t records_ = 0;
  std::string last_key_;
};

}  // namespace

std::unique_ptr<DatabaseWriter> NewLevelDbWriter(const std::string& path) {
  return std::make_unique<LevelDbWriter>(path);
}

}  // namespace carafe
