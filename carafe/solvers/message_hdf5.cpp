#include "carafe/solvers/message_hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Join(const std::string& group, const std::string& member) {
  return group.empty() ? member : group + "/" + member;
}

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// How the numbers of one field type are reached, and the type that stores them.
template <typename Stored_, typename Value>
struct Numbers {
  using Stored = Stored_;
  Value (Reflection::*get)(const Message&, const FieldDescriptor*) const;
  Value (Reflection::*get_repeated)(const Message&, const FieldDescriptor*, int) const;
  void (Reflection::*set)(Message*, const FieldDescriptor*, Value) const;
  void (Reflection::*add)(Message*, const FieldDescriptor*, Value) const;

  std::vector<Stored> All(const Message& message, const FieldDescriptor* field) const {
    const Reflection& reflection = *message.GetReflection();
    if (!field->is_repeated()) return {static_cast<Stored>((reflection.*get)(message, field))};
    std::vector<Stored> values;
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      values.push_back(static_cast<Stored>((reflection.*get_repeated)(message, field, i)));
    }
    return values;
  }
  void Put(Stored value, Message* message, const FieldDescriptor* field) const {
    const auto function = field->is_repeated() ? add : set;
    (message->GetReflection()->*function)(message, field, static_cast<Value>(value));
  }
};

// Strings and messages: a repeated field of them is a group whose members are numbered.
template <typename F>
void ForEachMember(const FieldDescriptor* field, const std::string& name, int count, const F& use) {
  if (!field->is_repeated()) return use(name, -1);
  for (int i = 0; i < count; ++i) use(fmt::format("{}/{}", name, i), i);
}

// Calls numbers(Numbers), text() or message(), by the type of the field. No default: a type that
// protobuf adds is a warning of the compiler, and warnings are errors.
template <typename OnNumbers, typename OnText, typename OnMessage>
void ByType(const FieldDescriptor* field, const OnNumbers& numbers, const OnText& text,
            const OnMessage& message) {
  using R = Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return numbers(Numbers<int32_t, int32_t>{&R::GetInt32, &R::GetRepeatedInt32, &R::SetInt32,
                                               &R::AddInt32});
    case FieldDescriptor::CPPTYPE_INT64:
      return numbers(Numbers<int64_t, int64_t>{&R::GetInt64, &R::GetRepeatedInt64, &R::SetInt64,
                                               &R::AddInt64});
    case FieldDescriptor::CPPTYPE_UINT32:
      return numbers(Numbers<int64_t, uint32_t>{&R::GetUInt32, &R::GetRepeatedUInt32, &R::SetUInt32,
                                                &R::AddUInt32});
    case FieldDescriptor::CPPTYPE_UINT64:
      return numbers(Numbers<uint64_t, uint64_t>{&R::GetUInt64, &R::GetRepeatedUInt64,
                                                 &R::SetUInt64, &R::AddUInt64});
    case FieldDescriptor::CPPTYPE_FLOAT:
      return numbers(
          Numbers<float, float>{&R::GetFloat, &R::GetRepeatedFloat, &R::SetFloat, &R::AddFloat});
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return numbers(Numbers<double, double>{&R::GetDouble, &R::GetRepeatedDouble, &R::SetDouble,
                                             &R::AddDouble});
    case FieldDescriptor::CPPTYPE_BOOL:
      return numbers(
          Numbers<int32_t, bool>{&R::GetBool, &R::GetRepeatedBool, &R::SetBool, &R::AddBool});
    case FieldDescriptor::CPPTYPE_ENUM:
      return numbers(Numbers<int32_t, int>{&R::GetEnumValue, &R::GetRepeatedEnumValue,
                                           &R::SetEnumValue, &R::AddEnumValue});
    case FieldDescriptor::CPPTYPE_STRING:
      return text();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return message();
  }
}

bool IsBytes(const FieldDescriptor* field) { return field->type() == FieldDescriptor::TYPE_BYTES; }

void WriteText(const Message& message, const FieldDescriptor* field, const std::string& name,
               int index, Hdf5File& file) {
  const Reflection& reflection = *message.GetReflection();
  const std::string text = index < 0 ? reflection.GetString(message, field)
                                     : reflection.GetRepeatedString(message, field, index);
  if (!IsBytes(field)) return file.WriteString(name, text);
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  file.Write<uint8_t>(name, {static_cast<int64_t>(bytes.size())}, bytes);
}

void ReadText(const Hdf5File& file, const std::string& name, const FieldDescriptor* field,
              Message* message) {
  std::string text;
  if (IsBytes(field)) {
    const std::vector<uint8_t> bytes = file.Read<uint8_t>(name);
    text.assign(bytes.begin(), bytes.end());
  } else {
    text = file.ReadString(name);
  }
  const Reflection& reflection = *message->GetReflection();
  if (field->is_repeated()) return reflection.AddString(message, field, text);
  reflection.SetString(message, field, text);
}

void WriteField(const Message& message, const FieldDescriptor* field, const std::string& name,
                Hdf5File& file) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
  const auto each = [&](const auto& use) {
    if (field->is_repeated()) file.CreateGroup(name);
    ForEachMember(field, name, count, use);
  };
  ByType(
      field,
      [&](const auto& numbers) {
        const auto values = numbers.All(message, field);
        using Stored = typename std::decay_t<decltype(numbers)>::Stored;
        file.Write<Stored>(name, {count}, values);
      },
      [&] {
        each([&](const std::string& member, int i) { WriteText(message, field, member, i, file); });
      },
      [&] {
        each([&](const std::string& member, int i) {
          file.CreateGroup(member);
          WriteMessageFields(i < 0 ? reflection.GetMessage(message, field)
                                   : reflection.GetRepeatedMessage(message, field, i),
                             member, file);
        });
      });
}

void ReadField(const Hdf5File& file, const std::string& name, const FieldDescriptor* field,
               Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const auto each = [&](const auto& use) {
    const int count = field->is_repeated() ? static_cast<int>(file.Members(name).size()) : 1;
    ForEachMember(field, name, count, use);
  };
  ByType(
      field,
      [&](const auto& numbers) {
        using Stored = typename std::decay_t<decltype(numbers)>::Stored;
        if (!field->is_repeated()) {
          numbers.Put(ReadOneValue<Stored>(file, name), message, field);
          return;
        }
        for (const Stored value : file.Read<Stored>(name)) numbers.Put(value, message, field);
      },
      [&] {
        each([&](const std::string& member, int) { ReadText(file, member, field, message); });
      },
      [&] {
        each([&](const std::string& member, int) {
          ReadMessageFields(file, member,
                            field->is_repeated() ? reflection.AddMessage(message, field)
                                                 : reflection.MutableMessage(message, field));
        });
      });
}

}  // namespace

void WriteMessageFields(const Message& message, const std::string& group, Hdf5File& file,
                        const std::vector<std::string_view>& except) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!Contains(except, field->name())) {
      WriteField(message, field, Join(group, field->name()), file);
    }
  }
}

void ReadMessageFields(const Hdf5File& file, const std::string& group, Message* message,
                       const std::vector<std::string_view>& except) {
  for (const std::string& member : file.Members(group.empty() ? "/" : group)) {
    if (Contains(except, member)) continue;
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(member);
    const std::string name = Join(group, member);
    if (field == nullptr) {
      LogInfo("{}: \"{}\" is unknown to this version and ignored", file.path(), name);
      continue;
    }
    ReadField(file, name, field, message);
  }
}

template <typename T>
T ReadOneValue(const Hdf5File& file, const std::string& name) {
  const std::vector<T> values = file.Read<T>(name);
  if (values.size() == 1) return values[0];
  throw DataError(file.path(), -1,
                  fmt::format("dataset \"{}\" has {} values instead of one", name, values.size()),
                  "the file is damaged or of another kind; try --snapshot=auto");
}

template int32_t ReadOneValue<int32_t>(const Hdf5File&, const std::string&);
template int64_t ReadOneValue<int64_t>(const Hdf5File&, const std::string&);

}  // namespace carafe
