// Records of a LevelDB, in the order of their keys. LevelDB lets one process alone open a folder,
// and changes it; the reader behind this does neither (leveldb_view.h).
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/timer.h"
#include "carafe/data/database.h"
#include "carafe/data/database_folder.h"
#include "carafe/data/leveldb_store.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

constexpr double kSecondsBetweenReports = 20;

// What all databases of one process that read the same folder share. For any number of threads.
class LevelDb {
 public:
  explicit LevelDb(const std::string& path) : path_(path) {
    std::string error;
    reader_ = std::make_unique<LevelDbReader>(path, &error);
    if (!error.empty()) {
      throw DataError(path_, -1, fmt::format("opening the LevelDB failed: {}", error),
                      "the database is damaged or not complete; copy or make it again");
    }
    bool any = false;
    error = reader_->Scan([&](std::string_view key) {
      any = true;
      first_ = key;
      return false;
    });
    if (!error.empty()) FailRecord(0, fmt::format("cannot be read: {}", error));
    if (!any) {
      throw DataError(path_, -1, "the database is empty",
                      fmt::format("make it again, e.g. with {}", kHowToMakeADatabase));
    }
  }

  int64_t size() const {
    EnsureIndex();
    return static_cast<int64_t>(ends_.size());
  }

  Record Read(int64_t index) const {
    std::string_view key = first_;
    if (index != 0) {
      Ensure(index > 0 && index < size(), "record index out of range");
      const auto i = static_cast<size_t>(index);
      key = std::string_view(keys_).substr(ends_[i - 1], ends_[i] - ends_[i - 1]);
    }
    auto value = std::make_shared<std::string>();
    const std::string error = reader_->Get(key, value.get());
    if (!error.empty()) {
      FailRecord(index, fmt::format("(key \"{}\") cannot be read: {}", key, error));
    }
    return {key, *value, value};
  }

 private:
  // LevelDB keeps no count, and its keys lie among the values: all of it is read once.
  void EnsureIndex() const {
    if (indexed_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (indexed_) return;
    const Timer timer;
    double next_report = kSecondsBetweenReports;
    keys_.clear();
    ends_.clear();
    const std::string error = reader_->Scan([&](std::string_view key) {
      keys_ += key;
      ends_.push_back(keys_.size());
      if (ends_.size() % 1024 == 0 && timer.Seconds() > next_report) {
        LogInfo("{}: counting the records of a LevelDB means reading it all; {} so far", path_,
                ends_.size());
        next_report = timer.Seconds() + kSecondsBetweenReports;
      }
      return true;
    });
    if (!error.empty()) {
      FailRecord(static_cast<int64_t>(ends_.size()), fmt::format("cannot be read: {}", error));
    }
    indexed_.store(true, std::memory_order_release);
  }

  [[noreturn]] void FailRecord(int64_t index, const std::string& what) const {
    throw DataError(path_, index, what, "the database is damaged; copy or make it again");
  }

  const std::string path_;
  std::unique_ptr<LevelDbReader> reader_;
  std::string first_;         // the first key
  mutable std::mutex mutex_;  // building the index
  mutable std::atomic<bool> indexed_ = false;
  mutable std::string keys_;  // one after the other; constant once indexed_
  mutable std::vector<uint64_t> ends_;
};

// The folder and the state it is in: one that was made again is another database.
std::string IdentityOf(const std::string& path) {
  struct stat status = {};
  if (stat((fs::path(path) / "CURRENT").c_str(), &status) != 0) return path;
  return fmt::format("{}:{}:{}.{}", status.st_dev, status.st_ino, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

std::shared_ptr<const LevelDb> Share(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const LevelDb>> open;
  const std::lock_guard lock(mutex);
  std::erase_if(open, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const LevelDb>& entry = open[IdentityOf(path)];
  std::shared_ptr<const LevelDb> database = entry.lock();
  if (database == nullptr) {
    database = std::make_shared<const LevelDb>(path);
    entry = database;
  }
  return database;
}

class LevelDbDatabase final : public Database {
 public:
  explicit LevelDbDatabase(const std::string& path) : path_(path) {
    CheckDatabaseFolder(path, "a LevelDB", "CURRENT");
    database_ = Share(path);
  }
  const std::string& name() const override { return path_; }
  int64_t size() const override { return database_->size(); }
  Record Read(int64_t index) const override { return database_->Read(index); }

 private:
  const std::string path_;
  std::shared_ptr<const LevelDb> database_;
};

}  // namespace

std::unique_ptr<Database> OpenLevelDb(const std::string& path) {
  return std::make_unique<LevelDbDatabase>(path);
}

}  // namespace carafe
