// The four kinds of error. Each says what is wrong, where, and how to put it right; none ends the
// process: main() prints it and returns 1, Python gets an exception of its own kind.
#pragma once

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

namespace carafe {

// A place in a text file; lines and columns count from 1, 0 means unknown.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;

  std::string ToString() const;  // "lenet.prototxt:31:3", or just the file
};

// what() holds the whole text, the remedy in a second line: "<where>: error: <what>\n  fix: <fix>".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A net, solver, flag or other setting that cannot be right.
class ConfigError : public Error {
 public:
  ConfigError(const Location& where, const std::string& what, const std::string& fix);
  ConfigError(const std::string& what, const std::string& fix);  // no file: flags, environment
};

// A file or database whose content is missing or broken. `record` is its position, or -1.
class DataError : public Error {
 public:
  DataError(const std::string& file, int64_t record, const std::string& what,
            const std::string& fix);
};

// Ranks that cannot talk to each other: who waited, for whom, for what, how long.
class CommError : public Error {
 public:
  CommError(int rank, int peer, const std::string& operation, double seconds,
            const std::string& fix);
  explicit CommError(const std::string& what, const std::string& fix);
};

// A bug of ours; carries our own file and line.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what,
                         std::source_location where = std::source_location::current());
};

// Throws InternalError unless `condition` holds: for what no input can cause.
inline void Ensure(bool condition, const char* what,
                   std::source_location where = std::source_location::current()) {
  if (!condition) throw InternalError(what, where);
}

}  // namespace carafe
