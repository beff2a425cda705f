// Log lines in Caffe's format, which existing log tools parse by position:
//   I1115 18:26:00.258822  1234 solver.cpp:239] Iteration 0, loss = 2.3
// One log per process, to stderr and optionally to a file. All functions may be called from any
// thread.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <string>

namespace carafe {

enum class LogLevel { kInfo, kWarning, kError, kNone };

void SetLogLevel(LogLevel least);          // what is below it is dropped
void SetLogToStderr(bool on);              // off while nothing but the file should get lines
void SetLogFile(const std::string& path);  // appends; throws DataError when it cannot be opened
// A reader of stderr that has stalled does not stall us: lines that it has no room for go to the
// file only. For ranks under mpirun, which stops reading while it ends a job.
void SetLogNeverBlocks(bool on);
void SetBeforeLogLine(
    void (*hook)());  // called before a line goes to stderr (clears a progress line)
void LogLine(LogLevel level, const std::source_location& where, const std::string& text);

// A format string that remembers where it was written, so that logging needs no macro.
template <typename... Args>
struct LogFormat {
  template <typename S>
  consteval LogFormat(const S& s, std::source_location w = std::source_location::current())
      : format(s), where(w) {}
  fmt::format_string<Args...> format;
  std::source_location where;
};

template <typename... Args>
void LogInfo(LogFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  LogLine(LogLevel::kInfo, f.where, fmt::format(f.format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(LogFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  LogLine(LogLevel::kWarning, f.where, fmt::format(f.format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(LogFormat<std::type_identity_t<Args>...> f, Args&&... args) {
  LogLine(LogLevel::kError, f.where, fmt::format(f.format, std::forward<Args>(args)...));
}

}  // namespace carafe
