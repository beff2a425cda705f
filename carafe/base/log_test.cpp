#include "carafe/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// What `log` writes to stderr. The level and the sinks are the process's: each test resets them.
template <typename F>
std::string Logged(const F& log) {
  ::testing::internal::CaptureStderr();
  log();
  return ::testing::internal::GetCapturedStderr();
}

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override {
    SetLogLevel(LogLevel::kInfo);
    SetLogToStderr(true);
    SetLogNeverBlocks(false);
    SetBeforeLogLine(nullptr);
  }
};

TEST_F(LogTest, WritesLinesInTheFormatOfCaffe) {
  EXPECT_THAT(Logged([] { LogInfo("loss = {}", 2.5); }),
              MatchesRegex("I[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} +[0-9]+ "
                           "log_test\\.cpp:[0-9]+\\] loss = 2\\.5\n"));
}

TEST_F(LogTest, StartsALineWithTheLetterOfItsLevel) {
  EXPECT_THAT(Logged([] { LogWarning("w"); }), MatchesRegex("W.*\\] w\n"));
  EXPECT_THAT(Logged([] { LogError("e"); }), MatchesRegex("E.*\\] e\n"));
}

TEST_F(LogTest, ShowsControlBytesInsteadOfPrintingThem) {
  EXPECT_THAT(Logged([] { LogInfo("{}", std::string("a\0\x1b[31mb", 8)); }),
              HasSubstr("] a\\x00\\x1b[31mb\n"));
}

// /dev/full takes nothing, as a full disk does.
TEST_F(LogTest, GoesOnWithoutItsFileWhenTheDiskIsFull) {
  SetLogFile("/dev/full");
  const std::string text = Logged([] {
    LogInfo("one");
    LogInfo("two");
  });
  EXPECT_THAT(text, HasSubstr("] one\n"));
  EXPECT_THAT(text, HasSubstr("] /dev/full cannot be written: "));
  EXPECT_THAT(text, HasSubstr("Free some space on that disk\n"));
  EXPECT_THAT(text, HasSubstr("] two\n"));
  EXPECT_EQ(text.find("cannot be written"), text.rfind("cannot be written")) << "said once";
  SetLogFile("/dev/null");
}

TEST_F(LogTest, DropsWhatIsBelowItsLevel) {
  SetLogLevel(LogLevel::kWarning);
  EXPECT_EQ(Logged([] { LogInfo("quiet"); }), "");
  EXPECT_THAT(Logged([] { LogWarning("loud"); }), HasSubstr("loud"));
  SetLogLevel(LogLevel::kNone);
  EXPECT_EQ(Logged([] { LogError("quiet"); }), "");
}

TEST_F(LogTest, CallsTheHookBeforeEachLineOnStderr) {
  static int calls;
  calls = 0;
  SetBeforeLogLine([] { ++calls; });
  Logged([] {
    LogInfo("one");
    LogInfo("two");
  });
  EXPECT_EQ(calls, 2);
  SetLogToStderr(false);
  EXPECT_EQ(Logged([] { LogInfo("three"); }), "");
  EXPECT_EQ(calls, 2);
}

// A pipe that nobody reads and that is full: a line is dropped instead of waiting forever.
TEST_F(LogTest, DropsLinesForAReaderThatHasStalledWhenItMayNotBlock) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string page(4096, 'x');
  while (write(ends[1], page.data(), page.size()) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  SetLogNeverBlocks(true);
  LogInfo("dropped");  // would never return otherwise
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  std::string all, part(4096, ' ');
  for (ssize_t size; (size = read(ends[0], part.data(), part.size())) > 0;) {
    all.append(part, 0, static_cast<size_t>(size));
  }
  close(ends[0]);
  EXPECT_EQ(all.find("dropped"), std::string::npos);
}

TEST_F(LogTest, SaysWhyALogFileCannotBeOpened) {
  const std::string folder = ::testing::TempDir();  // no file
  EXPECT_THAT(ErrorText<DataError>([&] { SetLogFile(folder); }),
              HasSubstr(folder + ": error: the log file cannot be opened"));
}

}  // namespace
}  // namespace carafe
