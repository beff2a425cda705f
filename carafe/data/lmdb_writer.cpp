// Writes an LMDB.
#include <fmt/format.h>
#include <lmdb.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/data/database_folder.h"
#include "carafe/data/database_writer.h"

namespace carafe {
namespace {

constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{64} << 20;
constexpr size_t kFirstMapBytes = size_t{64} << 20;

class LmdbWriter final : public DatabaseWriter {
 public:
  explicit LmdbWriter(const std::string& path) : folder_(path) {
    try {
      Check(mdb_env_create(&env_));
      Check(mdb_env_set_mapsize(env_, map_bytes_));
      // One writer, a private folder, one sync at the end: neither locks nor syncs in between.
      Check(mdb_env_open(env_, folder_.temporary().c_str(), MDB_NOLOCK | MDB_NOSYNC | MDB_NOTLS,
                         0644));
    } catch (...) {
      Close();
      throw;
    }
  }
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  ~LmdbWriter() override { Close(); }

  void Put(std::string_view key, std::string_view value) override {
    pending_.emplace_back(key, value);
    pending_bytes_ += key.size() + value.size();
    if (pending_.size() >= kBatchRecords || pending_bytes_ >= kBatchBytes) Commit();
  }

  void Finish() override {
    Commit();
    Check(mdb_env_sync(env_, 1));
    Close();
    folder_.Commit();
  }

  int64_t records() const override { return records_ + static_cast<int64_t>(pending_.size()); }

 private:
  void Close() {
    if (env_ != nullptr) mdb_env_close(std::exchange(env_, nullptr));
  }

  void Commit() {
    while (!TryCommit()) {
      map_bytes_ *= 2;
      Check(mdb_env_set_mapsize(env_, map_bytes_));
    }
    records_ += static_cast<int64_t>(pending_.size());
    pending_.clear();
    pending_bytes_ = 0;
  }

  // False: the map is full and nothing of the batch was written.
  bool TryCommit() {
    MDB_txn* txn = nullptr;
    Check(mdb_txn_begin(env_, nullptr, 0, &txn));
    std::string last = last_key_;
    int code = PutPending(txn, &last);
    if (code != 0) {
      mdb_txn_abort(txn);
    } else {
      code = mdb_txn_commit(txn);
    }
    if (code == MDB_MAP_FULL) return false;
    Check(code);
    last_key_ = std::move(last);
    return true;
  }

  int PutPending(MDB_txn* txn, std::string* last) {
    MDB_dbi dbi;
    if (const int code = mdb_dbi_open(txn, nullptr, 0, &dbi)) return code;
    for (size_t i = 0; i < pending_.size(); ++i) {
      auto& [key, value] = pending_[i];
      MDB_val k{key.size(), key.data()}, v{value.size(), value.data()};
      const bool ascends = key > *last;
      const int code = mdb_put(txn, dbi, &k, &v, ascends ? MDB_APPEND : MDB_NOOVERWRITE);
      if (code == MDB_KEYEXIST || code == MDB_BAD_VALSIZE) {
        refused_ = {records_ + static_cast<int64_t>(i), key};
      }
      if (code != 0) return code;
      if (ascends) *last = key;
    }
    return 0;
  }

  void Check(int code) const {
    if (code == 0) return;
    if (code == MDB_KEYEXIST) {
      throw DataError(folder_.path(), refused_.first,
                      fmt::format("the key \"{}\" was written before", refused_.second),
                      "give every record a key of its own");
    }
    if (code == MDB_BAD_VALSIZE) {
      throw DataError(folder_.path(), refused_.first,
                      fmt::format("a key has {} bytes", refused_.second.size()),
                      "use keys of 1 to 511 bytes");
    }
    throw DataError(folder_.path(), -1, fmt::format("writing failed: {}", mdb_strerror(code)),
                    code == ENOSPC ? "free some space on that disk, or write elsewhere"
                                   : "check the path and its permissions");
  }

  PendingFolder folder_;
  size_t map_bytes_ = kFirstMapBytes;
  MDB_env* env_ = nullptr;
  std::vector<std::pair<std::string, std::string>> pending_;
  size_t pending_bytes_ = 0;
  int64_t records_ = 0;  // committed
  std::string last_key_;
  std::pair<int64_t, std::string> refused_;  // position and key of a refused record
};

}  // namespace

std::unique_ptr<DatabaseWriter> NewLmdbWriter(const std::string& path) {
  return std::make_unique<LmdbWriter>(path);
}

}  // namespace carafe
