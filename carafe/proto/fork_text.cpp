#include "carafe/proto/fork_text.h"

#include <memory>

#include "carafe/base/error.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/text_scan.h"

namespace carafe {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

// ForkLayerParameter for LayerParameter; null: forks have added nothing that is understood.
const Descriptor* ForkTypeOf(const Descriptor& type) {
  return ForkLayerParameter::descriptor()->file()->FindMessageTypeByName("Fork" + type.name());
}

struct ForkValue {
  std::string_view message, field, value;
  std::string_view read_as;  // a field of the fork's message
};
constexpr ForkValue kValues[] = {
    {"LossParameter", "normalization", "PRE_FIXED", "pre_fixed: true"},
};

Message* MessageAt(const std::vector<std::pair<std::string, int>>& path, Message* message) {
  for (const auto& [name, index] : path) {
    const Reflection& reflection = *message->GetReflection();
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    message = field->is_repeated() ? reflection.MutableRepeatedMessage(message, field, index)
                                   : reflection.MutableMessage(message, field);
  }
  return message;
}

}  // namespace

// `match` returns what to parse, or "" for a field that stays.
template <typename Match>
bool ForkText::TakeAll(const Descriptor& root, const Match& match, std::string* text) {
  std::vector<std::pair<size_t, size_t>> places;
  VisitFields(*text, &root, [&](const TextField& field) {
    if (field.message == nullptr) return;
    const std::string found = match(field);
    if (found.empty()) return;
    Part part{{}, ForkTypeOf(*field.message), ""};
    for (const auto& [name, index] : field.path) part.path.emplace_back(std::string(name), index);
    part.text.append(static_cast<size_t>(LineOf(*text, field.begin) - 1), '\n');
    part.text.append(static_cast<size_t>(ColumnOf(*text, field.begin) - 1), ' ');
    part.text += found;
    parts_.push_back(std::move(part));
    places.emplace_back(field.begin, field.end);
  });
  for (auto [begin, end] : places) {
    if (end < text->size() && ((*text)[end] == ',' || (*text)[end] == ';')) ++end;
    for (size_t i = begin; i < end; ++i) {
      if ((*text)[i] != '\n') (*text)[i] = ' ';
    }
  }
  return !places.empty();
}

bool ForkText::Take(const Descriptor& root, const Descriptor& type, std::string_view field,
                    std::string* text) {
  const Descriptor* fork = ForkTypeOf(type);
  if (fork == nullptr || fork->FindFieldByName(std::string(field)) == nullptr) return false;
  const auto match = [&](const TextField& found) -> std::string {
    if (found.name != field || found.message->name() != type.name()) return "";
    return text->substr(found.begin, found.end - found.begin);
  };
  return TakeAll(root, match, text);
}

bool ForkText::TakeValue(const Descriptor& root, std::string_view field, std::string_view value,
                         std::string* text) {
  const auto match = [&](const TextField& found) -> std::string {
    if (found.name != field || found.value != value) return "";
    for (const ForkValue& known : kValues) {
      if (known.message == found.message->name() && known.field == field && known.value == value)
        return std::string(known.read_as);
    }
    return "";
  };
  return TakeAll(root, match, text);
}

void ForkText::AddTo(Message* root, const Parse& parse) const {
  for (const Part& part : parts_) {
    const std::unique_ptr<Message> fork(
        MessageFactory::generated_factory()->GetPrototype(part.fork)->New());
    parse(part.text, fork.get());
    Ensure(MessageAt(part.path, root)->MergeFromString(fork->SerializeAsString()),
           "a fork's fields could not be added");
  }
}

}  // namespace carafe
