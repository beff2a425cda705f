// The four kinds of error. Each says what is wrong, where, and how to fix it; none ends the
// process: main() prints it and returns 1, Python gets an exception of its own kind.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>

namespace carafe {

// A place in a file; lines and columns count from 1, records from 0. Without a file: unknown.
struct Location {
  std::string file;
  int line = 0;    // 0: unknown
  int column = 0;  // 0: unknown
  int64_t record = -1;

  std::string ToString() const;  // "lenet.prototxt:31:3", "train_lmdb: record 7", or just the file
};

enum class ErrorKind { kOther, kConfig, kData, kComm, kInternal };

struct ErrorFields {
  ErrorKind kind = ErrorKind::kOther;
  std::string origin;   // "rank 2 on node7", if the error is that of some ranks only
  Location where;       // in the user's files, or in ours for kInternal
  std::string subject;  // `layer "ip1" (InnerProduct)`
  std::string what;
  std::string fix;

  // "<origin>: <where>: error: <subject>: <what>\n  fix: <fix>", without the parts that are empty.
  std::string Text() const;
};

// The fields as bytes, for other ranks, and back.
std::string Serialize(const ErrorFields& fields);
ErrorFields DeserializeError(const std::string& bytes);

// Immutable, so that copies may be used by several threads.
class Error : public std::runtime_error {
 public:
  explicit Error(const ErrorFields& fields);
  explicit Error(const std::string& what, const std::string& fix = "");

  const ErrorFields& fields() const { return *fields_; }  // what() is their Text()

 private:
  std::shared_ptr<const ErrorFields> fields_;
};

// A net, solver, flag or other setting that cannot be right.
class ConfigError : public Error {
 public:
  ConfigError(const Location& where, const std::string& what, const std::string& fix);
  ConfigError(const Location& where, const std::string& subject, const std::string& what,
              const std::string& fix);
  ConfigError(const std::string& what, const std::string& fix);  // no file: flags, environment
  explicit ConfigError(ErrorFields fields);
};

// A file or database whose content is missing or broken. `record` is its position, or -1.
class DataError : public Error {
 public:
  DataError(const std::string& file, int64_t record, const std::string& what,
            const std::string& fix);
  explicit DataError(ErrorFields fields);
};

// Ranks that cannot communicate, or whose results differ.
class CommError : public Error {
 public:
  CommError(const std::string& what, const std::string& fix);
  explicit CommError(ErrorFields fields);
};

// A bug of ours; carries our own file and line.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what,
                         std::source_location where = std::source_location::current());
  explicit InternalError(ErrorFields fields);
};

// Throws the exception class of fields.kind.
[[noreturn]] void ThrowError(const ErrorFields& fields);

// Throws InternalError unless `condition` holds: for what no input can cause.
inline void Ensure(bool condition, const char* what,
                   std::source_location where = std::source_location::current()) {
  if (!condition) throw InternalError(what, where);
}

}  // namespace carafe
