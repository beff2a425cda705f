#include "carafe/data/leveldb_view.h"

#include <algorithm>
#include <cstring>

namespace carafe {
namespace {

using leveldb::Slice;
using leveldb::Status;

// LevelDB writes a file to its end before it reads it, so readers need no lock.
class MemorySequential final : public leveldb::SequentialFile {
 public:
  explicit MemorySequential(std::shared_ptr<const std::string> content)
      : content_(std::move(content)) {}
  Status Read(size_t n, Slice* result, char* scratch) override {
    n = std::min(n, content_->size() - at_);
    std::memcpy(scratch, content_->data() + at_, n);
    *result = Slice(scratch, n);
    at_ += n;
    return Status::OK();
  }
  Status Skip(uint64_t n) override {
    at_ += static_cast<size_t>(std::min<uint64_t>(n, content_->size() - at_));
    return Status::OK();
  }

 private:
  const std::shared_ptr<const std::string> content_;
  size_t at_ = 0;
};

class MemoryRandomAccess final : public leveldb::RandomAccessFile {
 public:
  explicit MemoryRandomAccess(std::shared_ptr<const std::string> content)
      : content_(std::move(content)) {}
  Status Read(uint64_t offset, size_t n, Slice* result, char* /*scratch*/) const override {
    if (offset > content_->size()) return Status::IOError("read beyond the end");
    const auto at = static_cast<size_t>(offset);
    *result = Slice(content_->data() + at, std::min(n, content_->size() - at));
    return Status::OK();
  }

 private:
  const std::shared_ptr<const std::string> content_;
};

class MemoryWritable final : public leveldb::WritableFile {
 public:
  explicit MemoryWritable(std::shared_ptr<std::string> content) : content_(std::move(content)) {}
  Status Append(const Slice& data) override {
    content_->append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const std::shared_ptr<std::string> content_;
};

class NoLock final : public leveldb::FileLock {};

}  // namespace

void LevelDbView::Seal() {
  const std::lock_guard lock(mutex_);
  sealed_ = true;
}

LevelDbView::Content LevelDbView::Find(const std::string& name, bool* removed) {
  const std::lock_guard lock(mutex_);
  const auto found = written_.find(name);
  *removed = removed_.contains(name);
  return found == written_.end() ? nullptr : found->second;
}

Status LevelDbView::NewSequentialFile(const std::string& name, leveldb::SequentialFile** to) {
  bool removed = false;
  if (Content content = Find(name, &removed)) {
    *to = new MemorySequential(std::move(content));
    return Status::OK();
  }
  return removed ? Status::NotFound(name) : target()->NewSequentialFile(name, to);
}

Status LevelDbView::NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** to) {
  bool removed = false;
  if (Content content = Find(name, &removed)) {
    *to = new MemoryRandomAccess(std::move(content));
    return Status::OK();
  }
  return removed ? Status::NotFound(name) : target()->NewRandomAccessFile(name, to);
}

Status LevelDbView::NewWritableFile(const std::string& name, leveldb::WritableFile** to) {
  const std::lock_guard lock(mutex_);
  *to = nullptr;
  if (sealed_) return Status::IOError(name, "opened for reading");
  auto content = std::make_shared<std::string>();
  written_[name] = content;
  removed_.erase(name);
  *to = new MemoryWritable(std::move(content));
  return Status::OK();
}

Status LevelDbView::NewAppendableFile(const std::string& name, leveldb::WritableFile** to) {
  *to = nullptr;
  return Status::IOError(name, "opened for reading");
}

bool LevelDbView::FileExists(const std::string& name) {
  bool removed = false;
  return Find(name, &removed) != nullptr || (!removed && target()->FileExists(name));
}

Status LevelDbView::GetChildren(const std::string& folder, std::vector<std::string>* names) {
  std::vector<std::string> on_disk;
  const Status status = target()->GetChildren(folder, &on_disk);
  if (!status.ok()) return status;
  const std::string prefix = folder + "/";
  const std::lock_guard lock(mutex_);
  std::set<std::string> all;
  for (const std::string& name : on_disk) {
    if (!removed_.contains(prefix + name)) all.insert(name);
  }
  for (const auto& [name, content] : written_) {
    if (name.starts_with(prefix)) all.insert(name.substr(prefix.size()));
  }
  names->assign(all.begin(), all.end());
  return Status::OK();
}

Status LevelDbView::RemoveFile(const std::string& name) {
  const std::lock_guard lock(mutex_);
  written_.erase(name);
  removed_.insert(name);
  return Status::OK();
}

Status LevelDbView::GetFileSize(const std::string& name, uint64_t* size) {
  bool removed = false;
  if (const Content content = Find(name, &removed)) {
    *size = content->size();
    return Status::OK();
  }
  return removed ? Status::NotFound(name) : target()->GetFileSize(name, size);
}

// LevelDB renames only what it has just written (the new CURRENT).
Status LevelDbView::RenameFile(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const auto found = written_.find(from);
  if (found == written_.end()) return Status::IOError(from, "opened for reading");
  written_[to] = found->second;
  written_.erase(from);
  removed_.erase(to);
  return Status::OK();
}

Status LevelDbView::LockFile(const std::string& /*name*/, leveldb::FileLock** lock) {
  *lock = new NoLock;
  return Status::OK();
}

Status LevelDbView::UnlockFile(leveldb::FileLock* lock) {
  delete lock;
  return Status::OK();
}

// The work must be run, for LevelDB waits for it when it closes; sealed, it fails at its first step
// and LevelDB goes on reading without it.
void LevelDbView::Schedule(void (*work)(void*), void* argument) {
  Seal();
  target()->Schedule(work, argument);
}

Status LevelDbView::NewLogger(const std::string& name, leveldb::Logger** to) {
  *to = nullptr;
  return Status::IOError(name, "opened for reading");
}

}  // namespace carafe
