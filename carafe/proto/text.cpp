#include "carafe/proto/text.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <cctype>
#include <optional>
#include <regex>
#include <vector>

#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/base/suggest.h"
#include "carafe/proto/fork_fields.h"
#include "carafe/proto/fork_layers.h"
#include "carafe/proto/fork_text.h"
#include "carafe/proto/text_scan.h"

namespace carafe {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// Keeps the first error; later ones only follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text.empty()) return;
    text = message;
    at = {"", line + 1, column + 1};
  }
  void AddWarning(int, int, const std::string&) override {}
  Location at;
  std::string text;
};

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return names;
}

// The 1-based column at which `word` starts in `line` of the text, at or before `column`: protobuf
// reports the column after an unknown name.
int ColumnOfWord(const std::string& text, int line, int column, const std::string& word) {
  size_t begin = 0;
  for (int i = 1; i < line && begin != std::string::npos; ++i) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos) return column;
  const std::string content = text.substr(begin, text.find('\n', begin) - begin);
  const size_t found = content.rfind(word, static_cast<size_t>(column));
  return found == std::string::npos ? column : static_cast<int>(found) + 1;
}

const Descriptor* MessageNamed(const Descriptor& root, const std::string& full_name) {
  return root.file()->pool()->FindMessageTypeByName(full_name);
}

// The type of the message whose braces enclose a place in the text; null if it cannot be told.
const Descriptor* EnclosingType(const std::string& text, int line, int column,
                                const Descriptor& root) {
  std::vector<const Descriptor*> open = {&root};
  std::string name;
  int at_line = 1, at_column = 1;
  char quote = '\0';
  bool comment = false;
  for (size_t i = 0; i < text.size() && (at_line < line || at_column < column); ++i) {
    const char c = text[i];
    at_column = c == '\n' ? 1 : at_column + 1;
    at_line += c == '\n';
    if (comment) {
      comment = c != '\n';
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
      if (c == '\\') {  // whatever follows is not the end
        ++i;
        ++at_column;
      }
    } else if (c == '#') {
      comment = true;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '<') {
      const Descriptor* outer = open.back();
      const FieldDescriptor* field = outer == nullptr ? nullptr : outer->FindFieldByName(name);
      open.push_back(field == nullptr ? nullptr : field->message_type());
    } else if ((c == '}' || c == '>') && open.size() > 1) {
      open.pop_back();
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      const bool goes_on = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 ||
                                     text[i - 1] == '_');
      if (!goes_on) name.clear();
      name += c;
    }
  }
  return open.back();
}

const std::regex& UnknownField() {
  static const std::regex pattern(R"re(Message type "([\w.]+)" has no field named "(\w+)"\.)re");
  return pattern;
}

const std::regex& UnknownValue() {
  static const std::regex pattern(
      R"re(Unknown enumeration value of "(\w+)" for field "(\w+)"\.)re");
  return pattern;
}

// The fork that has the unknown field or value which the error is about; null for any other error.
const ForkField* ForkFieldOf(const FirstError& error, const Descriptor& root) {
  std::smatch match;
  if (std::regex_match(error.text, match, UnknownValue())) {
    return FindForkValue(match[2].str(), match[1].str());
  }
  if (!std::regex_match(error.text, match, UnknownField())) return nullptr;
  const Descriptor* type = MessageNamed(root, match[1]);
  return type == nullptr ? nullptr : FindForkField(type->name(), match[2].str());
}

// Takes the unknown field or value which the error is about out of the text, if the schema of forks
// has it.
bool TakeForkField(const FirstError& error, const Descriptor& root, std::string* text,
                   ForkText* forks) {
  std::smatch match;
  if (std::regex_match(error.text, match, UnknownField())) {
    const Descriptor* type = MessageNamed(root, match[1]);
    return type != nullptr && forks->Take(root, *type, match[2].str(), text);
  }
  return std::regex_match(error.text, match, UnknownValue()) &&
         forks->TakeValue(root, match[2].str(), match[1].str(), text);
}

// PMLS-Caffe has a list of devices in quotes where Caffe has one number.
bool IsQuotedDevice(const FirstError& error, const std::string& text) {
  if (!error.text.starts_with("Expected integer")) return false;
  size_t begin = 0;
  for (int i = 1; i < error.at.line && begin != std::string::npos; ++i) {
    begin = text.find('\n', begin) + 1;
  }
  static const std::regex device(R"re([^#]*\bdevice_id\s*:\s*["'].*)re");
  return std::regex_match(text.substr(begin, text.find('\n', begin) - begin), device);
}

// "ROIPooling" to "roipooling", "roi_pooling_param" to "roipooling".
std::string PlainName(std::string name) {
  if (name.ends_with("_param")) name.resize(name.size() - 6);
  std::erase(name, '_');
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// An error about the settings of a layer that is not built here should name the layer, not the
// field: throws where the layer around `at` has a fork's type, or `field` is that of its type.
void CheckLayerType(const std::string& text, const Location& at, const std::string& field) {
  const TextLayer layer = EnclosingLayer(text, OffsetOf(text, at.line, at.column));
  if (layer.type.empty()) return;
  const Location type{at.file, LineOf(text, layer.type_begin), ColumnOf(text, layer.type_begin)};
  if (const ForkLayer* fork = FindForkLayer(layer.type)) ThrowForkLayer(type, layer.name, *fork);
  if (PlainName(field) != PlainName(layer.type)) return;
  throw ConfigError(type,
                    fmt::format("layer \"{}\": unknown layer type \"{}\"", layer.name, layer.type),
                    "`carafe layers` lists those that are built; a Python layer can be any other");
}

// Turns protobuf's sentence into ours, with a remedy.
[[noreturn]] void ThrowParseError(const FirstError& error, const std::string& text,
                                  const std::string& file, const Descriptor& root) {
  Location at{file, error.at.line, error.at.column};
  std::smatch match;
  static const std::regex twice(R"re(Non-repeated field "(\w+)" is specified multiple times\.)re");
  static const std::regex missing(R"re(Message missing required fields: (.*))re");
  if (std::regex_match(error.text, match, UnknownField())) {
    const std::string word = match[2];
    at.column = ColumnOfWord(text, at.line, at.column, word);
    const Descriptor* type = MessageNamed(root, match[1]);
    const std::string simple = type != nullptr ? type->name() : match[1].str();
    CheckLayerType(text, at, word);
    if (const ForkField* fork = ForkFieldOf(error, root)) {
      throw ConfigError(at, fmt::format("{}.{} is a field of {}", simple, word, fork->fork),
                        fork->value.empty()
                            ? std::string(fork->note)
                            : fmt::format("only \"{}: {}\" is understood", word, fork->value));
    }
    throw ConfigError(at, fmt::format("{} has no field named \"{}\"", simple, word),
                      type != nullptr ? DidYouMean(word, FieldNames(*type)) : "");
  }
  if (std::regex_match(error.text, match, UnknownValue())) {
    const std::string word = match[1], field_name = match[2];
    at.column = ColumnOfWord(text, at.line, at.column, word);
    const Descriptor* type = EnclosingType(text, at.line, at.column, root);
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(field_name);
    const bool known = field != nullptr && field->enum_type() != nullptr;
    if (field_name == "type") CheckLayerType(text, at, "");
    const std::string fix = known ? DidYouMean(word, ValueNames(*field->enum_type())) : "";
    throw ConfigError(at, fmt::format("\"{}\" is not a value of {}", word, field_name), fix);
  }
  if (std::regex_match(error.text, match, twice)) {
    at.column = ColumnOfWord(text, at.line, at.column, match[1]);
    throw ConfigError(at, fmt::format("{} is given twice", match[1].str()), "keep one of the two");
  }
  if (std::regex_match(error.text, match, missing)) {
    throw ConfigError({file}, fmt::format("required fields are missing: {}", match[1].str()),
                      "add them");
  }
  if (IsQuotedDevice(error, text)) {
    throw ConfigError(at, "a device_id in quotes is that of PMLS-Caffe",
                      "give one number without quotes, or name the devices with --gpu");
  }
  throw ConfigError(at, error.text,
                    "see the line in question; the syntax is protobuf's text format");
}

}  // namespace

Place Place::Child(const std::string& field, int index) const {
  Place child;
  if (tree_ == nullptr) return child;
  const FieldDescriptor* descriptor = type_->FindFieldByName(field);
  if (descriptor == nullptr || descriptor->message_type() == nullptr) return child;
  const Tree* nested = tree_->GetTreeForNested(descriptor, index);
  if (nested == nullptr) return child;
  child.document_ = document_;
  child.tree_ = nested;
  child.type_ = descriptor->message_type();
  const auto at = tree_->GetLocation(descriptor, index);
  child.start_ = {document_->file, at.line + 1, at.column + 1};
  return child;
}

Location Place::Find(std::string_view path) const {
  if (tree_ == nullptr) return start_;
  Location best = start_;
  if (best.file.empty()) best.file = document_->file;
  if (path.empty()) return best;
  const size_t dot = path.find('.');
  std::string name(path.substr(0, dot));
  std::optional<int> index;
  if (const size_t bracket = name.find('['); bracket != std::string::npos) {
    index = std::stoi(name.substr(bracket + 1));
    name.resize(bracket);
  }
  const FieldDescriptor* field = type_->FindFieldByName(name);
  if (field == nullptr) return best;
  const int which = field->is_repeated() ? index.value_or(0) : -1;
  const auto at = tree_->GetLocation(field, which);
  if (at.line < 0) return best;
  best = {document_->file, at.line + 1, at.column + 1};
  if (dot == std::string_view::npos) return best;
  const Place child = Child(name, which);
  return child.tree_ == nullptr ? best : child.Find(path.substr(dot + 1));
}

Place Place::Only(std::string_view path) const {
  Place place;
  place.start_ = Find(path);
  return place;
}

Place ParseText(const std::string& text, const std::string& file,
                google::protobuf::Message* message) {
  std::shared_ptr<Place::Document> document;
  std::string cleaned = text;  // without a fork's fields, each name in one more round
  ForkText forks;
  while (true) {
    document = std::make_shared<Place::Document>();
    document->file = file;
    FirstError error;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.WriteLocationsTo(&document->tree);
    parser.SetRecursionLimit(100);
    if (parser.ParseFromString(cleaned, message)) break;
    if (TakeForkField(error, *message->GetDescriptor(), &cleaned, &forks)) continue;
    const ForkField* fork = ForkFieldOf(error, *message->GetDescriptor());
    if (fork == nullptr || !fork->left_out ||
        !BlankOut(*fork, *message->GetDescriptor(), &cleaned)) {
      ThrowParseError(error, text, file, *message->GetDescriptor());
    }
    LogInfo("{}: {} of {} is left out: {}", Location{file, error.at.line, 0}.ToString(),
            fork->field, fork->fork, fork->note);
  }
  forks.AddTo(message, [&](const std::string& part, google::protobuf::Message* fork) {
    FirstError error;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    if (!parser.ParseFromString(part, fork)) {
      ThrowParseError(error, text, file, *fork->GetDescriptor());
    }
  });
  Place place;
  place.tree_ = &document->tree;
  place.type_ = message->GetDescriptor();
  place.start_ = {file, 0, 0};
  place.document_ = std::move(document);
  return place;
}

Place ParseTextFile(const std::string& path, google::protobuf::Message* message) {
  return ParseText(ReadFile(path), path, message);
}

std::string FormatText(const google::protobuf::Message& message) {
  std::string text;
  Ensure(TextFormat::PrintToString(message, &text), "a message could not be written as text");
  return text;
}

}  // namespace carafe
