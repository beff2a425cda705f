#include "carafe/data/leveldb_writer.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr size_t kMaxKeyBytes = 511;  // LMDB's limit, so that both take the same keys

}  // namespace

LevelDbWriter::LevelDbWriter(const std::string& path) : folder_(path) {
  std::string error;
  store_ = std::make_unique<LevelDbAppender>(folder_.temporary(), &error);
  Check(error);
}

void LevelDbWriter::Put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw DataError(folder_.path(), records_, fmt::format("a key has {} bytes", key.size()),
                    "use keys of 1 to 511 bytes");
  }
  const bool ascends = key > last_key_;
  if (!ascends && store_->Has(key)) {
    throw DataError(folder_.path(), records_, fmt::format("the key \"{}\" was written before", key),
                    "give every record a key of its own");
  }
  Check(store_->Put(key, value));
  if (ascends) last_key_ = key;
  ++records_;
}

void LevelDbWriter::Finish() {
  Check(store_->Close());
  store_.reset();
  folder_.Commit();
}

void LevelDbWriter::Check(const std::string& error) const {
  if (error.empty()) return;
  throw DataError(folder_.path(), -1, fmt::format("writing failed: {}", error),
                  "check the path, its permissions and the space on that disk");
}

}  // namespace carafe
