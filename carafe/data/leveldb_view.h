// How LevelDB sees the disk when it must not change it. Opening a LevelDB always writes (a new log,
// a new manifest, removal of old files): here all that happens in memory. Compiled without RTTI, as
// Debian's LevelDB is: only leveldb_*.cpp files so compiled may include it.
#pragma once

#include <leveldb/env.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace carafe {

// The files of the disk under those that were "written" here. Locks are granted to everybody.
// Nothing can be written any more after Seal, or once LevelDB asks for background work: that would
// be a compaction, which reads and writes the whole database. Usable by many threads.
class LevelDbView final : public leveldb::EnvWrapper {
 public:
  LevelDbView() : EnvWrapper(leveldb::Env::Default()) {}
  void Seal();

  leveldb::Status NewSequentialFile(const std::string& name, leveldb::SequentialFile** to) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** to) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** to) override;
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** to) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status RemoveDir(const std::string&) override { return leveldb::Status::OK(); }
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*work)(void*), void* argument) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** to) override;

 private:
  using Content = std::shared_ptr<std::string>;
  Content Find(const std::string& name, bool* removed);

  std::mutex mutex_;  // guards all below
  std::map<std::string, Content> written_;
  std::set<std::string> removed_;
  bool sealed_ = false;
};

}  // namespace carafe
