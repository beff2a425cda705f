// The calls of LevelDB that we use, without its types: they lack RTTI, which the rest of the
// library is compiled with. Errors come back as text ("" means none); callers know what to say.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace carafe {

// A database opened so that nothing on the disk changes and nobody is locked out. Get and Scan may
// be called by any number of threads at once.
class LevelDbReader {
 public:
  LevelDbReader(const std::string& folder, std::string* error);
  LevelDbReader(const LevelDbReader&) = delete;
  LevelDbReader& operator=(const LevelDbReader&) = delete;
  ~LevelDbReader();

  std::string Get(std::string_view key, std::string* value) const;
  // Visits all keys in order until `visit` returns false.
  std::string Scan(const std::function<bool(std::string_view key)>& visit) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A new database in an empty folder, for one thread.
class LevelDbAppender {
 public:
  LevelDbAppender(const std::string& folder, std::string* error);
  LevelDbAppender(const LevelDbAppender&) = delete;
  LevelDbAppender& operator=(const LevelDbAppender&) = delete;
  ~LevelDbAppender();

  std::string Put(std::string_view key, std::string_view value);
  bool Has(std::string_view key);
  // Writes and syncs all, and closes: nothing may be called afterwards. All records are in tables
  // then, none in the log, which every reader would have to replay.
  std::string Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace carafe
