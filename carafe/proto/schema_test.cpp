// Our schema against the list of all fields and enum values of the original (tests/facts).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "carafe/proto/messages.h"
#include "tests/support/paths.h"

namespace carafe {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Cells of a line; a quoted cell may hold commas, and doubled quotes for one.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += line[i++];
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

std::vector<std::vector<std::string>> ReadFacts(const std::string& name) {
  std::ifstream file(fmt::format("{}/tests/facts/{}", SourceDir(), name));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // the head
  while (std::getline(file, line)) {
    if (!line.empty()) rows.push_back(Cells(line));
  }
  return rows;
}

// "caffe.PoolingParameter.PoolMethod" without the package.
std::string Local(const std::string& full_name) { return full_name.substr(6); }

const Descriptor* MessageNamed(const std::string& name) {
  return NetParameter::descriptor()->file()->FindMessageTypeByName(name);
}

std::string TypeOf(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return Local(field.message_type()->full_name());
  if (field.enum_type() != nullptr) return Local(field.enum_type()->full_name());
  return field.type_name();
}

std::string LabelOf(const FieldDescriptor& field) {
  if (field.is_repeated()) return "repeated";
  return field.is_required() ? "required" : "optional";
}

// Numbers are compared as numbers: 1e-08 may be written in several ways.
bool HasDefault(const FieldDescriptor& field, const std::string& expected) {
  if (!field.has_default_value()) return expected.empty();
  if (expected.empty()) return false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return expected == (field.default_value_bool() ? "true" : "false");
    case FieldDescriptor::CPPTYPE_STRING:
      return expected == fmt::format("\"{}\"", field.default_value_string());
    case FieldDescriptor::CPPTYPE_ENUM:
      return expected == field.default_value_enum()->name();
    case FieldDescriptor::CPPTYPE_FLOAT:
      return std::stof(expected) == field.default_value_float();
    case FieldDescriptor::CPPTYPE_INT32:
      return std::stoi(expected) == field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64:
      return std::stoll(expected) == field.default_value_int64();
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::stoul(expected) == field.default_value_uint32();
    default:
      return false;
  }
}

TEST(Schema, HasEveryFieldOfTheOriginal) {
  const auto rows = ReadFacts("caffe_schema.csv");
  ASSERT_EQ(rows.size(), 423u);
  for (const auto& row : rows) {
    ASSERT_GE(row.size(), 7u);
    SCOPED_TRACE(fmt::format("{}.{}", row[0], row[1]));
    const Descriptor* message = MessageNamed(row[0]);
    ASSERT_NE(message, nullptr);
    const FieldDescriptor* field = message->FindFieldByName(row[1]);
    ASSERT_NE(field, nullptr);
    EXPECT_EQ(std::to_string(field->number()), row[2]);
    EXPECT_EQ(LabelOf(*field), row[3]);
    EXPECT_EQ(TypeOf(*field), row[4]);
    EXPECT_TRUE(HasDefault(*field, row[5])) << "expected default " << row[5];
    EXPECT_EQ(field->is_packed(), row[6] == "true");
  }
}

TEST(Schema, HasEveryEnumValueOfTheOriginal) {
  const auto rows = ReadFacts("caffe_enums.csv");
  ASSERT_EQ(rows.size(), 111u);
  std::map<std::string, std::set<std::string>> values;
  for (const auto& row : rows) {
    SCOPED_TRACE(fmt::format("{}.{}", row[0], row[1]));
    const EnumDescriptor* type = NetParameter::descriptor()->file()->pool()->FindEnumTypeByName(
        fmt::format("caffe.{}", row[0]));
    ASSERT_NE(type, nullptr);
    const auto* value = type->FindValueByName(row[1]);
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(std::to_string(value->number()), row[2]);
    values[row[0]].insert(row[1]);
    EXPECT_LE(values[row[0]].size(), static_cast<size_t>(type->value_count()));
  }
  for (const auto& [name, names] : values) {
    const EnumDescriptor* type = NetParameter::descriptor()->file()->pool()->FindEnumTypeByName(
        fmt::format("caffe.{}", name));
    EXPECT_EQ(static_cast<size_t>(type->value_count()), names.size()) << name;
  }
}

// Everything that is not Caffe's. Numbers below 10000 are a fork's, whose files carry them.
const std::set<std::string> kAddedFields = {
    "BatchNormParameter.bias_filler = 6",   // Caffe-MPI 1.0, caffe-parallel
    "BatchNormParameter.engine = 15",       // Caffe-MPI 1.0, caffe-parallel
    "BatchNormParameter.scale_bias = 7",    // NVCaffe, Caffe-MPI 2.0
    "BatchNormParameter.scale_filler = 5",  // Caffe-MPI 1.0, caffe-parallel
    "DataParameter.shuffle = 10000",
    "LayerParameter.exchange_scheme = 10006",
    "LayerParameter.interp_param = 10000",
    "LayerParameter.norm_param = 10001",
    "LayerParameter.parallel_data_param = 10147",
    "LayerParameter.parallel_inmem_data_param = 10148",
    "LayerParameter.permute_param = 10002",
    "LayerParameter.shuffle_channel_param = 10003",
    "LayerParameter.smooth_l1_loss_param = 10004",
    "LayerParameter.upsample_param = 10005",
    "LossParameter.label_smoothing = 10000",
    "PoolingParameter.kernel_shape = 10000",
    "PoolingParameter.pad_shape = 10002",
    "PoolingParameter.stride_shape = 10001",
    "SolverParameter.min_lr = 10002",
    "SolverParameter.exchange = 10005",
    "SolverParameter.exchange_timeout = 10008",
    "SolverParameter.local_steps = 10012",
    "SolverParameter.overlap = 10006",
    "SolverParameter.plateau_winsize = 10003",
    "SolverParameter.rampup_interval = 10000",
    "SolverParameter.rampup_lr = 10001",
    "SolverParameter.server_update = 10010",
    "SolverParameter.staleness = 10009",
    "SolverParameter.sync_batch_norm = 10007",
    "SolverParameter.trust_coefficient = 10004",
    "SolverParameter.wire = 10011",
};
const std::set<std::string> kAddedMessages = {
    "CarafeParallelDataParameter", "InterpParameter",
    "NormalizeParameter",          "PermuteParameter",
    "ShuffleChannelParameter",     "SmoothL1LossParameter",
    "UpsampleParameter",
};

TEST(Schema, AddsOnlyWhatIsListedHere) {
  std::set<std::string> fields, messages;
  std::map<std::string, std::set<int>> numbers;
  for (const auto& row : ReadFacts("caffe_schema.csv")) {
    fields.insert(row[0] + "." + row[1]);
    messages.insert(row[0]);
    numbers[row[0]].insert(std::stoi(row[2]));
  }
  EXPECT_EQ(messages.size(), 63u);
  const auto* file = NetParameter::descriptor()->file();
  std::set<std::string> added_fields, added_messages;
  for (int m = 0; m < file->message_type_count(); ++m) {
    const Descriptor& message = *file->message_type(m);
    if (!messages.contains(message.name())) {
      added_messages.insert(message.name());
      continue;
    }
    for (int f = 0; f < message.field_count(); ++f) {
      const FieldDescriptor& field = *message.field(f);
      if (fields.contains(message.name() + "." + field.name())) continue;
      added_fields.insert(fmt::format("{}.{} = {}", message.name(), field.name(), field.number()));
      EXPECT_FALSE(numbers[message.name()].contains(field.number())) << field.full_name();
    }
  }
  EXPECT_EQ(added_fields, kAddedFields);
  EXPECT_EQ(added_messages, kAddedMessages);
}

TEST(Schema, IsProto2InCaffesPackage) {
  EXPECT_EQ(NetParameter::descriptor()->full_name(), "caffe.NetParameter");
  LayerParameter layer;
  EXPECT_FALSE(layer.has_phase());
  layer.set_phase(TRAIN);  // the default value, and still present
  EXPECT_TRUE(layer.has_phase());
}

}  // namespace
}  // namespace carafe
