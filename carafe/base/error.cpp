#include "carafe/base/error.h"

#include <fmt/format.h>

namespace carafe {
namespace {

std::string Text(const std::string& where, const std::string& what, const std::string& fix) {
  std::string text = where.empty() ? "error: " + what : where + ": error: " + what;
  if (!fix.empty()) text += "\n  fix: " + fix;
  return text;
}

}  // namespace

std::string Location::ToString() const {
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

ConfigError::ConfigError(const Location& where, const std::string& what, const std::string& fix)
    : Error(Text(where.ToString(), what, fix)) {}

ConfigError::ConfigError(const std::string& what, const std::string& fix)
    : Error(Text("", what, fix)) {}

DataError::DataError(const std::string& file, int64_t record, const std::string& what,
                     const std::string& fix)
    : Error(Text(record < 0 ? file : fmt::format("{}: record {}", file, record), what, fix)) {}

CommError::CommError(int rank, int peer, const std::string& operation, double seconds,
                     const std::string& fix)
    : Error(Text(fmt::format("rank {}", rank),
                 fmt::format("waited {:.1f} s for rank {}: {}", seconds, peer, operation), fix)) {}

CommError::CommError(const std::string& what, const std::string& fix)
    : Error(Text("", what, fix)) {}

InternalError::InternalError(const std::string& what, std::source_location where)
    : Error(Text(fmt::format("{}:{}", where.file_name(), where.line()), what,
                 "this is a bug in Carafe; please report it with the command that led here")) {}

}  // namespace carafe
