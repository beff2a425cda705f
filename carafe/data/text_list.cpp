#include "carafe/data/text_list.h"

#include <fmt/format.h>

#include <cctype>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/hash.h"

namespace carafe {

std::string Printable(std::string_view text) {
  std::string shown(text.substr(0, 40));
  for (char& c : shown) {
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return shown;
}

TextList::TextList(const std::string& path) : path_(path), text_(ReadFile(path)) {
  int64_t number = 0;
  for (size_t begin = 0; begin < text_.size();) {
    size_t end = text_.find('\n', begin);
    if (end == std::string::npos) end = text_.size();
    const std::string_view line = std::string_view(text_).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const size_t last = line.find_last_not_of(" \t\r\v\f");
    if (last != std::string_view::npos) lines_.push_back({number, line.substr(0, last + 1)});
  }
  if (lines_.empty()) {
    throw DataError(path_, -1, "the list is empty", "give a file with one entry on each line");
  }
}

std::string TextList::Key(int64_t index) const {
  return fmt::format("line {}", At(lines_, index).number);
}

std::string TextList::Fingerprint() const {
  uint64_t hash = 0;
  for (const Line& line : lines_) hash = Hash64(line.text.data(), line.text.size(), hash);
  return fmt::format("{} lines, \"{}\" to \"{}\", hash {:016x}", lines_.size(),
                     Printable(lines_.front().text), Printable(lines_.back().text), hash);
}

}  // namespace carafe
