#include "carafe/solvers/message_hdf5.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

#include "carafe/proto/messages.h"
#include "carafe/proto/state_messages.h"
#include "tests/support/error_text.h"
#include "tests/support/fill_message.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptorProto;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A message type with an optional and a repeated field of every type that protobuf has, groups of
// proto2 excepted, made at run time.
class AllTypes {
 public:
  AllTypes() {
    google::protobuf::FileDescriptorProto file;
    file.set_name("all_types.proto");
    auto* color = file.add_enum_type();
    color->set_name("Color");
    for (const int number : {0, 1, 7}) {
      auto* value = color->add_value();
      value->set_name(fmt::format("C{}", number));
      value->set_number(number);
    }
    auto* inner = file.add_message_type();
    inner->set_name("Inner");
    AddField(inner, FieldDescriptorProto::TYPE_DOUBLE, 1, false);
    AddField(inner, FieldDescriptorProto::TYPE_STRING, 2, true);
    auto* all = file.add_message_type();
    all->set_name("All");
    for (int type = 1; type <= FieldDescriptorProto::Type_MAX; ++type) {
      if (type == FieldDescriptorProto::TYPE_GROUP) continue;
      const auto known = static_cast<FieldDescriptorProto::Type>(type);
      AddField(all, known, type, false);
      AddField(all, known, 100 + type, true);
    }
    pool_.BuildFile(file);
    type_ = pool_.FindMessageTypeByName("All");
  }
  std::unique_ptr<Message> New() {
    return std::unique_ptr<Message>(factory_.GetPrototype(type_)->New());
  }

 private:
  static void AddField(google::protobuf::DescriptorProto* message, FieldDescriptorProto::Type type,
                       int number, bool repeated) {
    FieldDescriptorProto* field = message->add_field();
    field->set_name(fmt::format("{}_{}", repeated ? "many" : "one", number));
    field->set_number(number);
    field->set_type(type);
    field->set_label(repeated ? FieldDescriptorProto::LABEL_REPEATED
                              : FieldDescriptorProto::LABEL_OPTIONAL);
    if (type == FieldDescriptorProto::TYPE_ENUM) field->set_type_name("Color");
    if (type == FieldDescriptorProto::TYPE_MESSAGE) field->set_type_name("Inner");
  }
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_{&pool_};
  const google::protobuf::Descriptor* type_ = nullptr;
};

void Write(const Message& message, const std::string& path) {
  Hdf5File file(path, Hdf5File::Mode::kCreate);
  file.CreateGroup("group");
  WriteMessageFields(message, "group", file);
  file.Close();
}

TEST(MessageHdf5, BringsBackEveryTypeOfField) {
  const TestFolder folder;
  AllTypes types;
  const auto written = types.New(), read = types.New();
  FillMessage(written.get());
  EXPECT_EQ(written->GetDescriptor()->field_count(), 34);
  for (int i = 0; i < 34; ++i) {
    const auto* field = written->GetDescriptor()->field(i);
    EXPECT_TRUE(field->is_repeated() ? written->GetReflection()->FieldSize(*written, field) == 3
                                     : written->GetReflection()->HasField(*written, field));
  }
  Write(*written, folder / "m.h5");
  ReadMessageFields(Hdf5File(folder / "m.h5"), "group", read.get());
  EXPECT_TRUE(MessageDifferencer::Equals(*written, *read))
      << written->DebugString() << read->DebugString();
}

TEST(MessageHdf5, BringsBackExtremeValuesAndBytes) {
  const TestFolder folder;
  TrainingState written, read;
  written.set_seed(std::numeric_limits<uint64_t>::max());
  written.set_samples_seen(std::numeric_limits<int64_t>::min());
  written.set_loss_scale(-0.0);
  PlateauState& plateau = *written.mutable_rate_policy()->mutable_plateau();
  plateau.set_lowest(std::numeric_limits<double>::infinity());
  plateau.add_losses(0.1);
  plateau.add_losses(std::numeric_limits<double>::denorm_min());
  written.mutable_training_plan()->set_exchange("");  // set, and empty
  Write(written, folder / "m.h5");
  ReadMessageFields(Hdf5File(folder / "m.h5"), "group", &read);
  EXPECT_EQ(read.SerializeAsString(), written.SerializeAsString());
  Datum bytes, back;
  bytes.set_data(std::string("\0\xff\0a", 4));
  Write(bytes, folder / "b.h5");
  ReadMessageFields(Hdf5File(folder / "b.h5"), "group", &back);
  EXPECT_EQ(back.data(), bytes.data());
  bytes.set_data("");
  Write(bytes, folder / "b.h5");
  back.Clear();
  ReadMessageFields(Hdf5File(folder / "b.h5"), "group", &back);
  EXPECT_TRUE(back.has_data());
}

TEST(MessageHdf5, HasTheFormThatItsHeaderDescribes) {
  const TestFolder folder;
  TrainingState state;
  state.set_tests_done(5);
  state.mutable_training_plan()->set_exchange("tree");
  state.mutable_training_plan()->add_convolutions()->set_key("a");
  state.mutable_training_plan()->add_convolutions()->set_key("b");
  Write(state, folder / "m.h5");
  const Hdf5File file(folder / "m.h5");
  EXPECT_THAT(file.Members("group"), ElementsAre("tests_done", "training_plan"));
  EXPECT_THAT(file.Read<int64_t>("group/tests_done"), ElementsAre(5));
  EXPECT_EQ(file.DatasetShape("group/tests_done"), Shape{1});
  EXPECT_THAT(file.Members("group/training_plan"), ElementsAre("convolutions", "exchange"));
  EXPECT_EQ(file.ReadString("group/training_plan/exchange"), "tree");
  EXPECT_EQ(file.ReadString("group/training_plan/convolutions/1/key"), "b");
}

TEST(MessageHdf5, IgnoresUnknownMembersAndLogsThem) {
  const TestFolder folder;
  AllTypes types;
  const auto written = types.New();
  FillMessage(written.get());
  Write(*written, folder / "m.h5");
  TrainingState read;
  ::testing::internal::CaptureStderr();
  ReadMessageFields(Hdf5File(folder / "m.h5"), "group", &read);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(read.ByteSizeLong(), 0u);
  EXPECT_THAT(log, HasSubstr("m.h5: \"group/one_1\" is unknown to this version and ignored"));
  EXPECT_THAT(log, HasSubstr("\"group/many_111\" is unknown"));
}

TEST(MessageHdf5, RefusesMembersOfAnotherKind) {
  const TestFolder folder;
  const auto error = [&](const std::string& field) {
    return ErrorText<DataError>([&] {
      const std::string path = folder / "m.h5";
      {
        Hdf5File file(path, Hdf5File::Mode::kCreate);
        file.CreateGroup("group");
        const int64_t two[] = {1, 2};
        file.Write<int64_t>("group/" + field, {2}, two);
        file.Close();
      }
      TrainingState state;
      ReadMessageFields(Hdf5File(path), "group", &state);
    });
  };
  EXPECT_THAT(error("seed"), HasSubstr("dataset \"group/seed\" has 2 values instead of one"));
  EXPECT_THAT(error("plan"), HasSubstr("dataset \"group/plan\" is not one string"));
  EXPECT_THAT(error("rate_policy"), HasSubstr("group \"group/rate_policy\" cannot be read"));
}

}  // namespace
}  // namespace carafe
