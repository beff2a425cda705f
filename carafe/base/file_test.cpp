#include "carafe/base/file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : folder_(fs::path(::testing::TempDir()) /
                fmt::format("carafe_file_{}_{}",
                            ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                            getpid())) {
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const fs::path folder_;
};

TEST_F(FileTest, ReadsBackEveryByteThatWasWritten) {
  std::string content;
  for (int i = 0; i < 100000; ++i) content += static_cast<char>(i * 7);
  WriteFileAtomically(Path("a"), content);
  EXPECT_EQ(ReadFile(Path("a")), content);
  WriteFileAtomically(Path("a"), "");
  EXPECT_EQ(ReadFile(Path("a")), "");
  EXPECT_THAT(Names(), ::testing::ElementsAre("a"));  // no temporary is left
}

TEST_F(FileTest, KeepsTheOldContentUntilTheNewOneIsComplete) {
  WriteFileAtomically(Path("a"), "old");
  WriteAtomically(Path("a"), [&](const std::string& temporary) {
    EXPECT_EQ(temporary, fmt::format("{}.tmp.{}", Path("a"), getpid()));
    WriteFileAtomically(temporary, "new");
    EXPECT_EQ(ReadFile(Path("a")), "old");
  });
  EXPECT_EQ(ReadFile(Path("a")), "new");
}

TEST_F(FileTest, RemovesTheTemporaryWhenWritingFails) {
  WriteFileAtomically(Path("a"), "old");
  const auto fail = [](const std::string& temporary) {
    WriteFileAtomically(temporary, "half");
    throw std::runtime_error("no more data");
  };
  EXPECT_THROW(WriteAtomically(Path("a"), fail), std::runtime_error);
  EXPECT_EQ(ReadFile(Path("a")), "old");
  EXPECT_THAT(Names(), ::testing::ElementsAre("a"));
}

TEST_F(FileTest, WritesThroughNoLinkThatLiesWhereTheTemporaryGoes) {
  WriteFileAtomically(Path("precious"), "keep");
  fs::create_symlink(Path("precious"), fmt::format("{}.tmp.{}", Path("a"), getpid()));
  WriteFileAtomically(Path("a"), "new");
  EXPECT_EQ(ReadFile(Path("precious")), "keep");
  EXPECT_EQ(ReadFile(Path("a")), "new");
  EXPECT_FALSE(fs::is_symlink(Path("a")));
}

TEST_F(FileTest, ReadsNoDevice) {
  EXPECT_EQ(ErrorText<DataError>([&] { ReadFile("/dev/zero"); }),
            "/dev/zero: error: this is a device, not a file\n  fix: give the path of a file");
}

TEST_F(FileTest, SaysWhyAFileCannotBeReadOrWritten) {
  EXPECT_EQ(ErrorText<DataError>([&] { ReadFile(Path("absent")); }),
            Path("absent") + ": error: the file cannot be read: No such file or directory\n" +
                "  fix: check the path; it was looked for from " + fs::current_path().string());
  EXPECT_EQ(ErrorText<DataError>([&] { ReadFile(folder_.string()); }),
            folder_.string() + ": error: this is a folder, not a file\n" +
                "  fix: give the path of a file");
  EXPECT_THAT(ErrorText<DataError>([&] { WriteFileAtomically(Path("none/a"), "x"); }),
              ::testing::HasSubstr("opening for writing failed: No such file or directory\n"
                                   "  fix: check the path"));
}

}  // namespace
}  // namespace carafe
