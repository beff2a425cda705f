#include "carafe/data/lmdb_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchRecords = 1000;
constexpr size_t kBatchBytes = size_t{64} << 20;
constexpr size_t kFirstMapBytes = size_t{64} << 20;

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void SyncFolder(const fs::path& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

class LmdbWriter::Impl {
 public:
  explicit Impl(const std::string& path)
      : path_(WithoutTrailingSlash(path)), temporary_(fmt::format("{}.tmp.{}", path_, getpid())) {
    RefuseExisting();
    std::error_code error;
    fs::create_directories(fs::path(path_).parent_path(), error);  // may have no parent
    if (!fs::create_directory(temporary_, error)) {
      throw DataError(path_, -1,
                      fmt::format("the folder {} cannot be made: {}", temporary_,
                                  error ? error.message() : "it exists"),
                      error ? "choose a place that you may write to" : "remove it");
    }
    try {
      Check(mdb_env_create(&env_));
      Check(mdb_env_set_mapsize(env_, map_bytes_));
      // One writer, a private folder, one sync at the end: neither locks nor syncs in between.
      Check(mdb_env_open(env_, temporary_.c_str(), MDB_NOLOCK | MDB_NOSYNC | MDB_NOTLS, 0644));
    } catch (...) {
      Remove();
      throw;
    }
  }
  ~Impl() {
    if (!finished_) Remove();
  }

  void Put(std::string_view key, std::string_view value) {
    pending_.emplace_back(key, value);
    pending_bytes_ += key.size() + value.size();
    if (pending_.size() >= kBatchRecords || pending_bytes_ >= kBatchBytes) Commit();
  }

  void Finish() {
    Commit();
    Check(mdb_env_sync(env_, 1));
    mdb_env_close(std::exchange(env_, nullptr));
    SyncFolder(temporary_);
    RefuseExisting();
    if (rename(temporary_.c_str(), path_.c_str()) != 0) Check(errno);
    finished_ = true;
    SyncFolder(fs::path(path_).parent_path());
  }

  int64_t records() const { return records_ + static_cast<int64_t>(pending_.size()); }

 private:
  void RefuseExisting() const {
    std::error_code error;
    if (fs::symlink_status(path_, error).type() == fs::file_type::not_found) return;
    throw DataError(path_, -1, "exists already", "remove it, or choose another name");
  }

  void Remove() {
    if (env_ != nullptr) mdb_env_close(std::exchange(env_, nullptr));
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
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
      throw DataError(path_, refused_.first,
                      fmt::format("the key \"{}\" was written before", refused_.second),
                      "give every record a key of its own");
    }
    if (code == MDB_BAD_VALSIZE) {
      throw DataError(path_, refused_.first,
                      fmt::format("a key has {} bytes", refused_.second.size()),
                      "use keys of 1 to 511 bytes");
    }
    throw DataError(path_, -1, fmt::format("writing failed: {}", mdb_strerror(code)),
                    code == ENOSPC ? "free some space on that disk, or write elsewhere"
                                   : "check the path and its permissions");
  }

  const std::string path_, temporary_;
  size_t map_bytes_ = kFirstMapBytes;
  MDB_env* env_ = nullptr;
  std::vector<std::pair<std::string, std::string>> pending_;
  size_t pending_bytes_ = 0;
  int64_t records_ = 0;  // committed
  std::string last_key_;
  std::pair<int64_t, std::string> refused_;  // position and key of a refused record
  bool finished_ = false;
};

LmdbWriter::LmdbWriter(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
LmdbWriter::~LmdbWriter() = default;
void LmdbWriter::Put(std::string_view key, std::string_view value) { impl_->Put(key, value); }
void LmdbWriter::Finish() { impl_->Finish(); }
int64_t LmdbWriter::records() const { return impl_->records(); }

}  // namespace carafe
