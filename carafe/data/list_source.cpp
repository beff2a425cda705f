// A text file as a source: every line that is not blank is a record.
#include <fmt/format.h>

#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/source.h"

namespace carafe {
namespace {

constexpr char kBlanks[] = " \t\r\v\f";

class ListSource final : public Source {
 public:
  explicit ListSource(const std::string& path) : path_(path), text_(ReadFile(path)) {
    int64_t number = 0;
    for (size_t begin = 0; begin < text_.size();) {
      size_t end = text_.find('\n', begin);
      if (end == std::string::npos) end = text_.size();
      const std::string_view line = std::string_view(text_).substr(begin, end - begin);
      begin = end + 1;
      ++number;
      const size_t last = line.find_last_not_of(kBlanks);
      if (last == std::string_view::npos) continue;
      lines_.push_back(line.substr(0, last + 1));
      keys_.push_back(fmt::format("line {}", number));
    }
    if (lines_.empty()) {
      throw DataError(path_, -1, "the list is empty", "give a file with one entry on each line");
    }
  }
  const std::string& name() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  Record Read(int64_t index) const override {
    Ensure(index >= 0 && index < size(), "record index out of range");
    const auto i = static_cast<size_t>(index);
    return {keys_[i], lines_[i]};
  }

 private:
  const std::string path_;
  const std::string text_;
  std::vector<std::string_view> lines_;  // into text_
  std::vector<std::string> keys_;
};

}  // namespace

std::unique_ptr<Source> OpenList(const std::string& path) {
  return std::make_unique<ListSource>(path);
}

}  // namespace carafe
