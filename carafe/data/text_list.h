// The lines of a text file: lists of images, labels and HDF5 files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carafe/base/index.h"

namespace carafe {

// Lines that are not blank, without white space at their ends. Constant after construction.
class TextList {
 public:
  // Throws DataError for a file that cannot be read or has no such line.
  explicit TextList(const std::string& path);
  TextList(const TextList&) = delete;  // the views point into text_
  TextList& operator=(const TextList&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return static_cast<int64_t>(lines_.size()); }
  std::string_view line(int64_t index) const { return At(lines_, index).text; }
  std::string Key(int64_t index) const;  // "line 7", counted with the blank ones
  // Number of lines, the first, the last, and a hash of all.
  std::string Fingerprint() const;

 private:
  struct Line {
    int64_t number = 0;
    std::string_view text;  // into text_
  };
  const std::string path_;
  const std::string text_;
  std::vector<Line> lines_;
};

// At most 40 characters of a key or a line, control codes replaced, to be shown in messages.
std::string Printable(std::string_view text);

}  // namespace carafe
