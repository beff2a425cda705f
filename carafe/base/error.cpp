#include "carafe/base/error.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "carafe/base/control_bytes.h"

namespace carafe {
namespace {

ErrorFields WithKind(ErrorFields fields, ErrorKind kind) {
  fields.kind = kind;
  return fields;
}

ErrorFields Fields(const Location& where, const std::string& what, const std::string& fix) {
  ErrorFields fields;
  fields.where = where;
  fields.what = what;
  fields.fix = fix;
  return fields;
}

Location RecordOf(const std::string& file, int64_t record) {
  Location where;
  where.file = file;
  where.record = record;
  return where;
}

// Texts as "<length>:<bytes>" one after the other, so that a text may hold any byte.
void Append(std::string* bytes, const std::string& text) {
  *bytes += fmt::format("{}:", text.size()) + text;
}
void Append(std::string* bytes, int64_t number) { Append(bytes, fmt::format("{}", number)); }

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string Text() {
    const size_t colon = rest_.find(':');
    Ensure(colon != rest_.npos, "an error of another rank cannot be read");
    const size_t length = static_cast<size_t>(Number(rest_.substr(0, colon)));
    rest_.remove_prefix(colon + 1);
    Ensure(length <= rest_.size(), "an error of another rank cannot be read");
    const std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return text;
  }
  int64_t Integer() { return Number(Text()); }

 private:
  static int64_t Number(std::string_view text) {
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    Ensure(error == std::errc() && stop == end, "an error of another rank cannot be read");
    return number;
  }
  std::string_view rest_;
};

}  // namespace

std::string Location::ToString() const {
  if (record >= 0) return fmt::format("{}: record {}", file, record);
  if (line <= 0) return file;
  if (column <= 0) return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

std::string ErrorFields::Text() const {
  std::string text;
  if (!origin.empty()) text += origin + ": ";
  if (const std::string place = where.ToString(); !place.empty()) text += place + ": ";
  text += "error: ";
  if (!subject.empty()) text += subject + ": ";
  text += what;
  if (!fix.empty()) text += "\n  fix: " + fix;
  return ShowControlBytes(text);
}

std::string Serialize(const ErrorFields& fields) {
  std::string bytes;
  Append(&bytes, static_cast<int64_t>(fields.kind));
  Append(&bytes, fields.origin);
  Append(&bytes, fields.where.file);
  Append(&bytes, fields.where.line);
  Append(&bytes, fields.where.column);
  Append(&bytes, fields.where.record);
  Append(&bytes, fields.subject);
  Append(&bytes, fields.what);
  Append(&bytes, fields.fix);
  return bytes;
}

ErrorFields DeserializeError(const std::string& bytes) {
  Reader reader(bytes);
  ErrorFields fields;
  fields.kind = static_cast<ErrorKind>(reader.Integer());
  fields.origin = reader.Text();
  fields.where.file = reader.Text();
  fields.where.line = static_cast<int>(reader.Integer());
  fields.where.column = static_cast<int>(reader.Integer());
  fields.where.record = reader.Integer();
  fields.subject = reader.Text();
  fields.what = reader.Text();
  fields.fix = reader.Text();
  return fields;
}

Error::Error(const ErrorFields& fields)
    : std::runtime_error(fields.Text()), fields_(std::make_shared<const ErrorFields>(fields)) {}

Error::Error(const std::string& what, const std::string& fix) : Error(Fields({}, what, fix)) {}

ConfigError::ConfigError(ErrorFields fields)
    : Error(WithKind(std::move(fields), ErrorKind::kConfig)) {}

ConfigError::ConfigError(const Location& where, const std::string& what, const std::string& fix)
    : ConfigError(Fields(where, what, fix)) {}

ConfigError::ConfigError(const Location& where, const std::string& subject, const std::string& what,
                         const std::string& fix)
    : ConfigError([&] {
        ErrorFields fields = Fields(where, what, fix);
        fields.subject = subject;
        return fields;
      }()) {}

ConfigError::ConfigError(const std::string& what, const std::string& fix)
    : ConfigError(Fields({}, what, fix)) {}

DataError::DataError(ErrorFields fields) : Error(WithKind(std::move(fields), ErrorKind::kData)) {}

DataError::DataError(const std::string& file, int64_t record, const std::string& what,
                     const std::string& fix)
    : DataError(Fields(RecordOf(file, record), what, fix)) {}

CommError::CommError(ErrorFields fields) : Error(WithKind(std::move(fields), ErrorKind::kComm)) {}

CommError::CommError(const std::string& what, const std::string& fix)
    : CommError(Fields({}, what, fix)) {}

InternalError::InternalError(ErrorFields fields)
    : Error(WithKind(std::move(fields), ErrorKind::kInternal)) {}

InternalError::InternalError(const std::string& what, std::source_location where)
    : InternalError(
          Fields({where.file_name(), static_cast<int>(where.line())}, what,
                 "this is a bug in Carafe; please report it with the command that led here")) {}

void ThrowError(const ErrorFields& fields) {
  switch (fields.kind) {
    case ErrorKind::kConfig:
      throw ConfigError(fields);
    case ErrorKind::kData:
      throw DataError(fields);
    case ErrorKind::kComm:
      throw CommError(fields);
    case ErrorKind::kInternal:
      throw InternalError(fields);
    case ErrorKind::kOther:
      break;
  }
  throw Error(fields);
}

}  // namespace carafe
