#include "carafe/proto/finite.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <cmath>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/proto/messages.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

double NumberOf(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool is_float = field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
  if (field->is_repeated()) {
    return is_float ? reflection.GetRepeatedFloat(message, field, index)
                    : reflection.GetRepeatedDouble(message, field, index);
  }
  return is_float ? reflection.GetFloat(message, field) : reflection.GetDouble(message, field);
}

const Message& MessageOf(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  return field->is_repeated() ? reflection.GetRepeatedMessage(message, field, index)
                              : reflection.GetMessage(message, field);
}

}  // namespace

void CheckFinite(const Message& message, const Place& place, Infinite infinite) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool number = field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
                        field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    if (!nested && !number) continue;
    if (nested && field->message_type() == NetParameter::descriptor()) continue;
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (nested) {
        CheckFinite(MessageOf(message, field, i),
                    place.Child(field->name(), field->is_repeated() ? i : -1), infinite);
        continue;
      }
      const double value = NumberOf(message, field, i);
      if (std::isfinite(value) || (std::isinf(value) && infinite == Infinite::kAllowed)) continue;
      throw ConfigError(place.Find(field->name()), fmt::format("{} is {}", field->name(), value),
                        "give a finite number");
    }
  }
}

}  // namespace carafe
