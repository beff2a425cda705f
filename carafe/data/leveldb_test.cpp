// The LevelDB reader and writer against each other, against databases of LevelDB itself, and
// against broken folders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leveldb/c.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/random.h"
#include "carafe/data/database.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/leveldb_store.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string KeyOf(int i) { return fmt::format("{:08d}", i); }

void Write(const std::string& path,
           const std::vector<std::pair<std::string, std::string>>& records) {
  const auto writer = NewLevelDbWriter(path);
  for (const auto& [key, value] : records) writer->Put(key, value);
  writer->Finish();
}

// Name, time of change and content of every file.
std::map<std::string, std::string> StateOf(const std::string& folder) {
  std::map<std::string, std::string> state;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto time = entry.last_write_time().time_since_epoch().count();
    state[entry.path().filename()] = std::to_string(time) + ReadFile(entry.path());
  }
  return state;
}

// LevelDB itself, through its C interface: records `first` to `last`, left in the log.
void PutWithLevelDb(const std::string& path, int first, int last) {
  char* error = nullptr;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, path.c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  for (int i = first; i <= last; ++i) {
    const std::string key = KeyOf(i), value = "value " + key;
    leveldb_put(db, write, key.data(), key.size(), value.data(), value.size(), &error);
    ASSERT_EQ(error, nullptr) << error;
  }
  leveldb_writeoptions_destroy(write);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

TEST(LevelDb, ReadsBackWhatWasWrittenInOrderOfKeys) {
  const TestFolder folder;
  const std::string path = folder / "db";
  Write(path, {{"b", "two"}, {"a", "one"}, {"d", ""}, {"c", std::string(100000, 'x')}});
  const auto source = OpenLevelDb(path);
  EXPECT_EQ(source->name(), path);
  EXPECT_EQ(source->Read(0).key, "a");  // before the records are counted
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(source->Read(2).value, std::string(100000, 'x'));
  EXPECT_EQ(source->Read(0).value, "one");
  EXPECT_EQ(source->Read(1).key, "b");
  EXPECT_EQ(source->Read(3).value, "");
  EXPECT_THROW(source->Read(4), InternalError);
}

TEST(LevelDb, ReadsManyRecordsByManyThreads) {
  const TestFolder folder;
  {
    const auto writer = NewLevelDbWriter(folder / "db");
    for (int i = 0; i < 3000; ++i) writer->Put(KeyOf(i), std::string(3000, 'v') + KeyOf(i));
    EXPECT_EQ(writer->records(), 3000);
    writer->Finish();
  }
  const auto source = OpenLevelDb(folder / "db");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 3000; i += 4) {
        const Record record = source->Read(i);
        if (record.key != KeyOf(i) || record.value.substr(3000) != KeyOf(i)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(source->size(), 3000);
}

// What is in the log only, and tables that LevelDB would rather compact: reading must do without
// both writing and compacting.
TEST(LevelDb, ReadsLogAndTablesWithoutChangingAFile) {
  const TestFolder folder;
  const std::string path = folder / "db";
  for (int i = 0; i < 8; ++i) PutWithLevelDb(path, i * 100, i * 100 + 99);
  const auto before = StateOf(path);
  {
    const auto source = OpenLevelDb(path);
    ASSERT_EQ(source->size(), 800);
    for (int i = 0; i < 800; ++i) {
      ASSERT_EQ(source->Read(i).key, KeyOf(i));
      ASSERT_EQ(source->Read(i).value, "value " + KeyOf(i));
    }
  }
  EXPECT_EQ(StateOf(path), before);
}

TEST(LevelDb, IsReadByManyAtOnceEvenWhileAnotherHoldsTheLock) {
  const TestFolder folder;
  const std::string path = folder / "db";
  PutWithLevelDb(path, 0, 9);
  char* error = nullptr;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_t* holder = leveldb_open(options, path.c_str(), &error);
  ASSERT_EQ(error, nullptr);
  const auto before = StateOf(path);
  const auto first = OpenLevelDb(path);
  const auto second = OpenLevelDb(path);
  EXPECT_EQ(first->Read(3).value, second->Read(3).value);
  const pid_t child = fork();
  if (child == 0) {  // another process; leaves without the test's clean-up
    std::string failure;
    const LevelDbReader reader(path, &failure);
    std::string value;
    const bool read = failure.empty() && reader.Get(KeyOf(7), &value).empty();
    _exit(read && value == "value " + KeyOf(7) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(StateOf(path), before);
  leveldb_close(holder);
  leveldb_options_destroy(options);
}

TEST(LevelDb, OpensAFolderWithoutWritePermission) {
  const TestFolder folder;
  const std::string path = folder / "db";
  Write(path, {{"a", "1"}});
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(OpenLevelDb(path)->Read(0).value, "1");
  fs::permissions(path, fs::perms::owner_all);
}

TEST(LevelDb, SeesADatabaseThatWasMadeAnew) {
  const TestFolder folder;
  const std::string path = folder / "db";
  Write(path, {{"a", "old"}});
  const auto old = OpenLevelDb(path);
  EXPECT_EQ(old->Read(0).value, "old");
  fs::remove_all(path);
  Write(path, {{"a", "new"}, {"b", "more"}});
  const auto fresh = OpenLevelDb(path);
  EXPECT_EQ(fresh->Read(0).value, "new");
  EXPECT_EQ(fresh->size(), 2);
}

TEST(LevelDb, RefusesWhatIsNoDatabase) {
  const TestFolder folder;
  EXPECT_THAT(ErrorText<DataError>([] { OpenLevelDb("no/such_leveldb"); }),
              StartsWith("no/such_leveldb: error: no such folder; looked for it from "));
  WriteFileAtomically(folder / "file", "text");
  EXPECT_EQ(ErrorText<DataError>([&] { OpenLevelDb(folder / "file"); }),
            (folder / "file") +
                ": error: this is a file; a LevelDB is a folder that holds CURRENT\n  fix: give "
                "the path of the folder");
  fs::create_directory(folder / "empty");
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLevelDb(folder / "empty"); }),
              StartsWith((folder / "empty") +
                         ": error: not a LevelDB: the folder holds no CURRENT\n  fix: check the "
                         "path and the backend"));
  Write(folder / "none", {});
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLevelDb(folder / "none"); }),
              StartsWith((folder / "none") + ": error: the database is empty"));
}

TEST(LevelDb, SaysWhatIsDamaged) {
  const TestFolder folder;
  const std::string path = folder / "db";
  std::string noise;  // does not compress away
  for (int i = 0; i < 200000; ++i) noise += static_cast<char>(i * 7919 >> 5);
  Write(path, {{"a", "first"}, {"b", noise}, {"c", noise}});
  std::string table;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".ldb") table = entry.path();
  }
  const std::string whole = ReadFile(table);
  std::string bad = whole;
  for (size_t i = bad.size() / 2; i < bad.size() / 2 + 100; ++i) bad[i] = '?';
  WriteFileAtomically(table, bad);
  EXPECT_THAT(ErrorText<DataError>([&] {
                const auto source = OpenLevelDb(path);
                for (int i = 0; i < 3; ++i) source->Read(i);
              }),
              HasSubstr("cannot be read: Corruption"));
  WriteFileAtomically(table, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLevelDb(path); }), HasSubstr("damaged"));
  fs::remove(table);
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLevelDb(path); }),
              HasSubstr("opening the LevelDB failed: Corruption: 1 missing files"));
  WriteFileAtomically(path + "/CURRENT", "MANIFEST-999999\n");
  EXPECT_THAT(ErrorText<DataError>([&] { OpenLevelDb(path); }), HasSubstr("opening the LevelDB"));
}

// Seeded: 150 times up to 8 bytes of one file are changed.
TEST(LevelDb, DamageAtRandomGivesAnErrorOrNothing) {
  const TestFolder folder;
  const std::string path = folder / "db";
  std::vector<std::pair<std::string, std::string>> records;
  for (int i = 0; i < 600; ++i)
    records.emplace_back(KeyOf(i), std::string(300, static_cast<char>(i)));
  Write(path, records);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.file_size() > 0) files.push_back(entry.path().string());
  std::ranges::sort(files);
  RandomSequence random(20);
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string& file = files[random.NextBelow(files.size())];
    const std::string whole = ReadFile(file);
    std::string damaged = whole;
    for (int n = 0; n < 8; ++n)
      damaged[random.NextBelow(damaged.size())] = static_cast<char>(random.NextBelow(256));
    WriteFileAtomically(file, damaged);
    const std::string error = ErrorText<DataError>([&] {
      const auto source = OpenLevelDb(path);
      for (int64_t r = 0; r < source->size(); ++r) source->Read(r);
    });
    if (error != "no error") {
      ++refused;
      EXPECT_THAT(error, HasSubstr(path));
    }
    WriteFileAtomically(file, whole);
  }
  EXPECT_GT(refused, 50);
}

TEST(LevelDbWriter, AppearsOnlyWhenFinished) {
  const TestFolder folder;
  {
    const auto writer = NewLevelDbWriter(folder / "sub/db");
    for (int i = 0; i < 1500; ++i) writer->Put(KeyOf(i), std::string(5000, 'v'));
  }
  EXPECT_TRUE(fs::is_empty(folder / "sub"));
  Write(folder / "db", {{"a", "1"}});
  EXPECT_EQ(ErrorText<DataError>([&] { NewLevelDbWriter(folder / "db"); }),
            (folder / "db") + ": error: exists already\n  fix: remove it, or choose another name");
}

TEST(LevelDbWriter, RefusesTheSameKeyTwiceAndUnusableKeys) {
  const TestFolder folder;
  EXPECT_EQ(ErrorText<DataError>([&] {
              Write(folder / "db", {{"a", "1"}, {"b", "2"}, {"a", "3"}});
            }),
            (folder / "db") +
                ": record 2: error: the key \"a\" was written before\n  fix: give every record a "
                "key of its own");
  EXPECT_THAT(ErrorText<DataError>([&] {
                Write(folder / "db", {{std::string(600, 'k'), "1"}});
              }),
              HasSubstr("record 0: error: a key has 600 bytes"));
  EXPECT_FALSE(fs::exists(folder / "db"));
}

TEST(LevelDbWriter, MakesWhatLevelDbReads) {
  const TestFolder folder;
  Write(folder / "db", {{"a", "1"}, {"b", "2"}});
  char* error = nullptr;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_t* db = leveldb_open(options, (folder / "db").c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  size_t size = 0;
  char* value = leveldb_get(db, read, "b", 1, &size, &error);
  EXPECT_EQ(std::string(value, size), "2");
  leveldb_free(value);
  leveldb_readoptions_destroy(read);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

}  // namespace
}  // namespace carafe
