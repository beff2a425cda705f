#include "carafe/proto/text_scan.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace carafe {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Scanner {
 public:
  Scanner(std::string_view text, const std::function<void(const TextField&)>& visit)
      : text_(text), visit_(visit) {}

  // The fields from `at` to the closing brace; returns one past it.
  size_t Message(size_t at, const Descriptor* type, int depth) {
    std::map<std::string_view, int> seen;  // how often each message field was there
    while ((at = AfterSpace(at)) < text_.size()) {
      const char c = text_[at];
      if (c == '}' || c == '>') return at + 1;
      if (c == '"' || c == '\'') {
        at = AfterQuoted(at);
      } else if (!InWord(c)) {
        ++at;
      } else {
        at = Field(at, type, depth, &seen);
      }
    }
    return text_.size();
  }

 private:
  size_t Field(size_t begin, const Descriptor* type, int depth,
               std::map<std::string_view, int>* seen) {
    size_t at = begin;
    while (at < text_.size() && InWord(text_[at])) ++at;
    TextField field;
    field.begin = begin;
    field.name = text_.substr(begin, at - begin);
    field.depth = depth;
    field.message = type;
    size_t value = AfterSpace(at);
    const bool colon = value < text_.size() && text_[value] == ':';
    if (colon) value = AfterSpace(value + 1);
    field.braces = value < text_.size() && (text_[value] == '{' || text_[value] == '<');
    if (!colon && !field.braces) return at;  // no field
    if (field.braces) {
      const FieldDescriptor* inner =
          type == nullptr ? nullptr : type->FindFieldByName(std::string(field.name));
      constexpr int kDeepest = 100;  // as deep as protobuf reads
      path_.emplace_back(field.name, (*seen)[field.name]++);
      field.end =
          depth >= kDeepest
              ? text_.size()
              : Message(value + 1, inner == nullptr ? nullptr : inner->message_type(), depth + 1);
      path_.pop_back();
    } else {
      field.end = AfterScalar(value);
      field.value = text_.substr(value, field.end - value);
    }
    field.path = path_;
    visit_(field);
    return std::max(field.end, at);
  }
  size_t AfterSpace(size_t at) const {
    while (at < text_.size()) {
      if (text_[at] == '#') {
        at = std::min(text_.find('\n', at), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at])) != 0) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  }
  size_t AfterQuoted(size_t at) const {
    const char quote = text_[at];
    for (++at; at < text_.size() && text_[at] != quote && text_[at] != '\n'; ++at) {
      if (text_[at] == '\\') ++at;
    }
    return std::min(at + 1, text_.size());
  }
  // A number, a word, strings that are joined, or a list in brackets.
  size_t AfterScalar(size_t at) const {
    if (at < text_.size() && text_[at] == '[') {
      while (at < text_.size() && text_[at] != ']') {
        at = text_[at] == '"' || text_[at] == '\'' ? AfterQuoted(at) : at + 1;
      }
      return std::min(at + 1, text_.size());
    }
    if (at < text_.size() && (text_[at] == '"' || text_[at] == '\'')) {
      size_t end = AfterQuoted(at);
      for (size_t next = AfterSpace(end);
           next < text_.size() && (text_[next] == '"' || text_[next] == '\'');
           next = AfterSpace(end)) {
        end = AfterQuoted(next);
      }
      return end;
    }
    constexpr std::string_view more = ".+-";
    while (at < text_.size() && (InWord(text_[at]) || more.find(text_[at]) != more.npos)) ++at;
    return at;
  }

  const std::string_view text_;
  const std::function<void(const TextField&)>& visit_;
  std::vector<std::pair<std::string_view, int>> path_;  // of the message that is being read
};

std::string WithoutQuotes(std::string_view value) {
  const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'');
  return std::string(quoted ? value.substr(1, value.size() - 2) : value);
}

}  // namespace

void VisitFields(std::string_view text, const Descriptor* root,
                 const std::function<void(const TextField&)>& visit) {
  Scanner(text, visit).Message(0, root, 0);
}

TextLayer EnclosingLayer(std::string_view text, size_t offset) {
  TextLayer found;
  std::map<int, TextLayer> open;  // by depth: what the message around has so far
  VisitFields(text, nullptr, [&](const TextField& field) {
    if (!field.braces) {
      TextLayer& inside = open[field.depth];
      if (field.name == "name") inside.name = WithoutQuotes(field.value);
      if (field.name != "type") return;
      inside.type = WithoutQuotes(field.value);
      inside.type_begin = field.begin;
      return;
    }
    const bool is_layer = field.name == "layer" || field.name == "layers";
    if (is_layer && field.begin <= offset && offset < field.end && found.type.empty()) {
      found = open[field.depth + 1];
    }
    open.erase(field.depth + 1);
  });
  return found;
}

size_t OffsetOf(std::string_view text, int line, int column) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    ++at;
  }
  return std::min(at + static_cast<size_t>(std::max(column, 1) - 1), text.size());
}

int LineOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

int ColumnOf(std::string_view text, size_t offset) {
  const size_t start = text.substr(0, offset).rfind('\n');
  return static_cast<int>(start == std::string_view::npos ? offset + 1 : offset - start);
}

}  // namespace carafe
