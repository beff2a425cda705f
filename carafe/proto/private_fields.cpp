#include "carafe/proto/private_fields.h"

#include <google/protobuf/unknown_field_set.h>

#include <vector>

namespace carafe {

void DropPrivateFields(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> present;
  reflection.ListFields(*message, &present);
  google::protobuf::UnknownFieldSet* unknown = reflection.MutableUnknownFields(message);
  for (int i = unknown->field_count(); i-- > 0;) {
    if (unknown->field(i).number() >= kFirstPrivateField) unknown->DeleteSubrange(i, 1);
  }
  for (const FieldDescriptor* field : present) {
    if (field->number() >= kFirstPrivateField) {
      reflection.ClearField(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i)
        DropPrivateFields(reflection.MutableRepeatedMessage(message, field, i));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      DropPrivateFields(reflection.MutableMessage(message, field));
    }
  }
}

}  // namespace carafe
