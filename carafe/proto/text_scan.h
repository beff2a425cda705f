// Finds the fields of a text message without parsing it: for texts that protobuf refuses.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carafe {

// One `name: value` or `name { ... }` of a text. The views are of the text.
struct TextField {
  size_t begin = 0, end = 0;  // of name and value with its braces
  std::string_view name;
  std::string_view value;  // as written, with quotes; empty for a message
  bool braces = false;     // the value is a message
  int depth = 0;           // 0: not inside of braces
  const google::protobuf::Descriptor* message = nullptr;  // that has the field; null: unknown
  // From the root to that message: the name of each field, and how many of that name came before.
  std::vector<std::pair<std::string_view, int>> path;
};

// Calls `visit` for each field of a message of type `root`, those inside of braces before the one
// that has the braces. Comments and quoted strings are skipped; text that cannot be understood is
// passed over.
void VisitFields(std::string_view text, const google::protobuf::Descriptor* root,
                 const std::function<void(const TextField&)>& visit);

// The `layer` or `layers` entry around a place of the text; empty if there is none.
struct TextLayer {
  std::string name, type;  // without quotes; empty: not given
  size_t type_begin = 0;   // the offset of the field `type` in the text
};
TextLayer EnclosingLayer(std::string_view text, size_t offset);

// Between an offset and the line and column of an error, which count from 1.
size_t OffsetOf(std::string_view text, int line, int column);
int LineOf(std::string_view text, size_t offset);
int ColumnOf(std::string_view text, size_t offset);

}  // namespace carafe
