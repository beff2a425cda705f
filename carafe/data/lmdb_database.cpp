// Records of an LMDB, in the order of their keys. Opened without locks, so that read-only and
// network file systems work and many ranks may read one copy; values are never copied out of the
// map.
#include <fmt/format.h>
#include <lmdb.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/data/database.h"
#include "carafe/data/database_folder.h"
#include "carafe/data/lmdb_pages.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

struct CloseEnv {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
struct AbortTxn {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
struct CloseCursor {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using Env = std::unique_ptr<MDB_env, CloseEnv>;
using Txn = std::unique_ptr<MDB_txn, AbortTxn>;
using Cursor = std::unique_ptr<MDB_cursor, CloseCursor>;

std::string_view View(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

class LmdbDatabase final : public Database {
 public:
  explicit LmdbDatabase(const std::string& path) : path_(path) {
    CheckDatabaseFolder(path, "an LMDB", "data.mdb");
    pages_ = std::make_unique<LmdbPages>(path, DataFile());
    pages_->ReadHeaders();
    Open();
    CheckFileLength();
    MDB_txn* txn = nullptr;
    Check(mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &txn), "starting to read");
    txn_.reset(txn);
    Check(mdb_dbi_open(txn_.get(), nullptr, 0, &dbi_), "opening the table");
    MDB_stat stat;
    Check(mdb_stat(txn_.get(), dbi_, &stat), "counting records");
    size_ = static_cast<int64_t>(stat.ms_entries);
    if (size_ == 0) {
      throw DataError(path_, -1, "the database is empty",
                      fmt::format("make it again, e.g. with {}", kHowToMakeADatabase));
    }
  }

  const std::string& name() const override { return path_; }
  int64_t size() const override { return size_; }

  Record Read(int64_t index) const override {
    Ensure(index >= 0 && index < size_, "record index out of range");
    if (!indexed_.load(std::memory_order_acquire)) {
      const std::lock_guard lock(mutex_);
      if (index == 0 && !indexed_) return ReadFirst();
      if (!indexed_) BuildIndex();
    }
    const Entry& entry = At(entries_, index);
    return Checked(index, {{entry.key, entry.key_size}, {entry.value, entry.value_size}});
  }

 private:
  // Lengths of keys and values are below 2^32 in LMDB.
  struct Entry {
    const char* key;
    const char* value;
    uint32_t key_size, value_size;
  };

  void Open() {
    MDB_env* env = nullptr;
    Check(mdb_env_create(&env), "preparing");
    env_.reset(env);
    const int code =
        mdb_env_open(env_.get(), path_.c_str(), MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0);
    // EBADF: LMDB tries to give an empty file a header, although it was opened for reading.
    if (code == MDB_INVALID || code == MDB_VERSION_MISMATCH || code == EBADF) {
      throw DataError(DataFile(), -1,
                      fmt::format("this file is not an LMDB database ({})", mdb_strerror(code)),
                      fmt::format("make the database again, e.g. with {}", kHowToMakeADatabase));
    }
    Check(code, "opening");
  }

  // A page beyond the end of the file would kill the process with SIGBUS on first touch.
  void CheckFileLength() {
    MDB_envinfo info;
    MDB_stat stat;
    Check(mdb_env_info(env_.get(), &info), "reading the header");
    Check(mdb_env_stat(env_.get(), &stat), "reading the header");
    std::error_code error;
    const uintmax_t length = fs::file_size(DataFile(), error);
    const uintmax_t needed = (uintmax_t{info.me_last_pgno} + 1) * stat.ms_psize;
    if (error || length < needed) {
      throw DataError(DataFile(), -1,
                      fmt::format("the file is cut off: it has {} bytes, its header says {}",
                                  error ? 0 : length, needed),
                      "copy or make the database again");
    }
    length_ = length;
    page_size_ = stat.ms_psize;
  }

  Cursor OpenCursor() const {
    MDB_cursor* cursor = nullptr;
    Check(mdb_cursor_open(txn_.get(), dbi_, &cursor), "reading");
    return Cursor(cursor);
  }

  // Avoids the walk through all keys if only the shape of the records is needed: on a large
  // database that is not in memory the walk takes minutes.
  Record ReadFirst() const {
    pages_->CheckFirst();
    const Cursor cursor = OpenCursor();
    MDB_val key, value;
    const int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_FIRST);
    if (code != 0) FailRecord(0, fmt::format("cannot be read: {}", mdb_strerror(code)));
    CheckInFile(0, key, value);
    return Checked(0, {View(key), View(value)});
  }

  Record Checked(int64_t index, Record record) const {
    const std::string wrong = pages_->CheckValue(record.value);
    if (!wrong.empty()) FailRecord(index, fmt::format("(key \"{}\") {}", record.key, wrong));
    return record;
  }

  void BuildIndex() const {
    const uint64_t records = pages_->CheckAll();
    const Cursor cursor = OpenCursor();
    std::vector<Entry> entries;
    entries.reserve(records);  // the header may say any number
    MDB_val key, value;
    int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_FIRST);
    for (; code == 0; code = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT)) {
      CheckInFile(static_cast<int64_t>(entries.size()), key, value);
      entries.push_back({View(key).data(), View(value).data(), static_cast<uint32_t>(key.mv_size),
                         static_cast<uint32_t>(value.mv_size)});
    }
    const auto found = static_cast<int64_t>(entries.size());
    if (code != MDB_NOTFOUND) {
      FailRecord(found, fmt::format("cannot be read: {}", mdb_strerror(code)));
    }
    if (found != size_) {
      FailRecord(found,
                 fmt::format("missing: the header says {} records, there are {}", size_, found));
    }
    entries_ = std::move(entries);
    indexed_.store(true, std::memory_order_release);
  }

  // LMDB takes the length of a value from the file unchecked. The address of its map follows from
  // the page of any key: every page begins with its own number (8 bytes, the machine's byte order).
  void CheckInFile(int64_t index, const MDB_val& key, const MDB_val& value) const {
    const auto at = reinterpret_cast<uintptr_t>(key.mv_data);
    const uintptr_t page = at - at % page_size_;
    uint64_t number = 0;
    std::memcpy(&number, reinterpret_cast<const void*>(page), sizeof(number));
    const uintptr_t begin = page - number * page_size_;
    const auto end = reinterpret_cast<uintptr_t>(value.mv_data) + value.mv_size;
    if (end < begin || end - begin > length_) {
      FailRecord(index, fmt::format("(key \"{}\") reaches beyond the end of the file", View(key)));
    }
  }

  [[noreturn]] void FailRecord(int64_t index, const std::string& what) const {
    throw DataError(path_, index, what, "the database is damaged; copy or make it again");
  }

  void Check(int code, const char* doing) const {
    if (code == 0) return;
    throw DataError(path_, -1, fmt::format("{} the LMDB failed: {}", doing, mdb_strerror(code)),
                    code == EACCES ? "ask for permission to read data.mdb"
                                   : "check that data.mdb is whole and on a working disk");
  }
  std::string DataFile() const { return (fs::path(path_) / "data.mdb").string(); }

  const std::string path_;
  std::unique_ptr<LmdbPages> pages_;
  Env env_;
  Txn txn_;  // stays open: it keeps the views valid
  MDB_dbi dbi_ = 0;
  int64_t size_ = 0;
  uintmax_t length_ = 0, page_size_ = 0;
  mutable std::mutex mutex_;  // the transaction's cursors, and building entries_
  mutable std::atomic<bool> indexed_ = false;
  mutable std::vector<Entry> entries_;  // constant once indexed_
};

}  // namespace

std::unique_ptr<Database> OpenLmdb(const std::string& path) {
  return std::make_unique<LmdbDatabase>(path);
}

}  // namespace carafe
