#include "carafe/base/log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "carafe/base/control_bytes.h"
#include "carafe/base/error.h"
#include "carafe/base/second_log_file.h"

namespace carafe {
namespace {

// %L%m%d %H:%M:%S.%f %5t %s:%#] %v is byte for byte what glog 0.5 and older printed.
constexpr char kPattern[] = "%L%m%d %H:%M:%S.%f %5t %s:%#] %v";

struct LogFile {
  std::shared_ptr<spdlog::sinks::sink> sink;  // null: none
  std::string path;
  bool failed = false;  // the last line could not be written
};

struct Sinks {
  std::mutex mutex;
  spdlog::pattern_formatter console{kPattern};
  LogFile file, second_file;
  bool to_stderr = true;
  bool never_blocks = false;
  bool stalled = false;  // the last line found no room
};

Sinks& AllSinks() {
  static Sinks* const sinks = new Sinks;  // never destroyed: threads may log until the very end
  return *sinks;
}

std::atomic<LogLevel> least_level{LogLevel::kInfo};
std::atomic<void (*)()> before_line{nullptr};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

// A pipe that polls as writable takes a line of up to 4 KB without blocking.
bool HasRoom(Sinks& sinks) {
  if (!sinks.never_blocks) return true;
  pollfd stderr_room{STDERR_FILENO, POLLOUT, 0};
  const int patience_ms = sinks.stalled ? 0 : 500;
  sinks.stalled = poll(&stderr_room, 1, patience_ms) == 0;
  return !sinks.stalled;
}

void WriteToStderr(Sinks& sinks, const spdlog::details::log_msg& message) {
  if (!HasRoom(sinks)) return;
  spdlog::memory_buf_t line;
  sinks.console.format(message, line);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

LogFile OpenLogFile(const std::string& path) {
  LogFile file{.sink = nullptr, .path = path};
  try {
    file.sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
  } catch (const spdlog::spdlog_ex& error) {
    throw DataError(path, -1, fmt::format("the log file cannot be opened ({})", error.what()),
                    "check that the folder exists and can be written");
  }
  file.sink->set_pattern(kPattern);
  return file;
}

// A disk that is full ends no run: it is reported once, until a line gets through again.
void WriteToFile(Sinks& sinks, LogFile& file, const spdlog::details::log_msg& message) {
  try {
    file.sink->log(message);
    file.sink->flush();
    file.failed = false;
  } catch (const spdlog::spdlog_ex& error) {
    if (std::exchange(file.failed, true)) return;
    const std::string text = fmt::format(
        "{} cannot be written: {}; the run goes on, and lines may be missing there. Free some "
        "space on that disk",
        file.path, error.what());
    WriteToStderr(sinks, {message.source, "carafe", spdlog::level::err, text});
  }
}

}  // namespace

void SetLogLevel(LogLevel least) { least_level = least; }

void SetBeforeLogLine(void (*hook)()) { before_line = hook; }

void SetLogToStderr(bool on) {
  std::lock_guard lock(AllSinks().mutex);
  AllSinks().to_stderr = on;
}

void SetLogNeverBlocks(bool on) {
  std::lock_guard lock(AllSinks().mutex);
  AllSinks().never_blocks = on;
}

void SetLogFile(const std::string& path) {
  const LogFile file = OpenLogFile(path);
  std::lock_guard lock(AllSinks().mutex);
  AllSinks().file = file;
}

void SetSecondLogFile(const std::string& path) {
  const LogFile file = OpenLogFile(path);
  std::lock_guard lock(AllSinks().mutex);
  AllSinks().second_file = file;
}

void LogLine(LogLevel level, const std::source_location& where, const std::string& line) {
  if (level < least_level.load()) return;
  const std::string text = ShowControlBytes(line);
  const char* slash = std::strrchr(where.file_name(), '/');
  const spdlog::source_loc source{slash ? slash + 1 : where.file_name(),
                                  static_cast<int>(where.line()), where.function_name()};
  const spdlog::details::log_msg message(source, "carafe", SpdlogLevel(level), text);
  Sinks& sinks = AllSinks();
  std::lock_guard lock(sinks.mutex);
  if (sinks.to_stderr) {
    if (auto* hook = before_line.load()) hook();
    WriteToStderr(sinks, message);
  }
  for (LogFile* file : {&sinks.file, &sinks.second_file})
    if (file->sink) WriteToFile(sinks, *file, message);
}

}  // namespace carafe
