#include "tests/support/fill_message.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <utility>

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kRepeats = 3;

struct Filler {
  int next = 2;  // the next number: 2, 3, ..; above 1, which a default may be

  void FillAll(Message* message) {
    for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message->GetDescriptor()->field(i);
      if (field->options().deprecated()) continue;
      for (int n = 0; n < (field->is_repeated() ? kRepeats : 1); ++n) FillOne(message, field);
    }
  }

  template <typename Value>
  void Put(Message* message, const FieldDescriptor* field, Value value,
           void (Reflection::*set)(Message*, const FieldDescriptor*, Value) const,
           void (Reflection::*add)(Message*, const FieldDescriptor*, Value) const) {
    const auto function = field->is_repeated() ? add : set;
    (message->GetReflection()->*function)(message, field, std::move(value));
  }

  void FillOne(Message* message, const FieldDescriptor* field) {
    using R = Reflection;
    const int number = next++;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Put<int32_t>(message, field, -number, &R::SetInt32, &R::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Put<int64_t>(message, field, (int64_t{1} << 40) + number, &R::SetInt64,
                            &R::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put<uint32_t>(message, field, ~uint32_t{0} - static_cast<uint32_t>(number),
                             &R::SetUInt32, &R::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put<uint64_t>(message, field, ~uint64_t{0} - static_cast<uint64_t>(number),
                             &R::SetUInt64, &R::AddUInt64);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put<float>(message, field, static_cast<float>(number) / 3, &R::SetFloat,
                          &R::AddFloat);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put<double>(message, field, number / 3.0, &R::SetDouble, &R::AddDouble);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put<bool>(message, field, true, &R::SetBool, &R::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* values = field->enum_type();
        return Put<int>(message, field, values->value(values->value_count() - 1)->number(),
                        &R::SetEnumValue, &R::AddEnumValue);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return Put<std::string>(message, field, fmt::format("text\n{}", number), &R::SetString,
                                &R::AddString);
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const R& reflection = *message->GetReflection();
        return FillAll(field->is_repeated() ? reflection.AddMessage(message, field)
                                            : reflection.MutableMessage(message, field));
      }
    }
  }
};

}  // namespace

void FillMessage(Message* message) { Filler().FillAll(message); }

}  // namespace carafe
