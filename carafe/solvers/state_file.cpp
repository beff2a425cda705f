#include "carafe/solvers/state_file.h"

#include <fmt/format.h>

#include <climits>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/net/weights.h"
#include "carafe/proto/dialects.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kGroup[] = "carafe";

std::string NameOf(const FieldDescriptor& field) {
  return fmt::format("{}/{}", kGroup, field.name());
}

template <typename T>
T ReadOne(const Hdf5File& file, const std::string& name) {
  const std::vector<T> values = file.Read<T>(name);
  if (values.size() == 1) return values[0];
  throw DataError(file.path(), -1,
                  fmt::format("dataset \"{}\" has {} values instead of one", name, values.size()),
                  "the file is damaged or of another kind; try --snapshot=auto");
}

template <typename T>
void WriteOne(Hdf5File& file, const std::string& name, T value) {
  file.Write<T>(name, {1}, std::span<const T>(&value, 1));
}

// Field by field, so that a field added to the message is in the file, too.
void WriteOurs(const CarafeState& state, Hdf5File& file) {
  file.CreateGroup(kGroup);
  std::vector<const FieldDescriptor*> fields;
  state.GetReflection()->ListFields(state, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto& reflection = *state.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        WriteOne<int32_t>(file, NameOf(*field), reflection.GetInt32(state, field));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        WriteOne<int64_t>(file, NameOf(*field), reflection.GetInt64(state, field));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        WriteOne<uint64_t>(file, NameOf(*field), reflection.GetUInt64(state, field));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        file.WriteString(NameOf(*field), reflection.GetString(state, field));
        break;
      default:
        throw InternalError("a state field of a type without a form in HDF5: " + field->name());
    }
  }
}

void ReadOurs(const Hdf5File& file, CarafeState* state) {
  const auto& descriptor = *CarafeState::descriptor();
  const auto& reflection = *state->GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const std::string name = NameOf(*field);
    if (!file.HasDataset(name)) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(state, field, ReadOne<int32_t>(file, name));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(state, field, ReadOne<int64_t>(file, name));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(state, field, ReadOne<uint64_t>(file, name));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(state, field, file.ReadString(name));
        break;
      default:
        break;
    }
  }
}

StoredState ReadHdf5(const std::string& path) {
  const Hdf5File file(path);
  if (!file.HasDataset("iter") || !file.HasGroup("history")) {
    throw DataError(path, -1, "this HDF5 file is not a .solverstate",
                    "give the .solverstate.h5, not the weights");
  }
  StoredState state;
  state.head.set_iter(ReadOne<int32_t>(file, "iter"));
  if (file.HasDataset("learned_net")) state.head.set_learned_net(file.ReadString("learned_net"));
  if (file.HasDataset("current_step")) {
    state.head.set_current_step(ReadOne<int32_t>(file, "current_step"));
  }
  const size_t blobs = file.Members("history").size();
  for (size_t i = 0; i < blobs; ++i) {
    state.history.push_back(file.Read<double>(fmt::format("history/{}", i)));
  }
  if (file.HasGroup(kGroup)) ReadOurs(file, state.head.mutable_carafe());
  return state;
}

}  // namespace

StoredState ReadStateFile(const std::string& path) {
  if (IsHdf5(path)) return ReadHdf5(path);
  StoredState state;
  const std::string bytes = ReadFile(path);
  if (bytes.empty() || !state.head.ParseFromString(bytes) || !state.head.has_iter()) {
    throw DataError(path, -1,
                    fmt::format("this is not a whole .solverstate ({} bytes)", bytes.size()),
                    "the file is truncated or of another kind; try --snapshot=auto");
  }
  ConvertDialect(&state.head, path);
  for (int i = 0; i < state.head.history_size(); ++i) {
    state.history.push_back(
        BlobProtoValues(state.head.history(i), path, fmt::format("history blob {}", i)));
  }
  state.head.clear_history();
  return state;
}

template <typename T>
void WriteStateFile(Stream& stream, SolverState head, const std::vector<Blob<T>>& history,
                    SolverParameter::SnapshotFormat format, const std::string& path) {
  if (format == SolverParameter::BINARYPROTO) {
    for (const Blob<T>& blob : history) ToBlobProto(stream, blob, false, head.add_history());
    WriteFileAtomically(path, SerializeSnapshot(head, path));
    return;
  }
  WriteAtomically(path, [&](const std::string& temporary) {
    Hdf5File file(temporary, Hdf5File::Mode::kCreate);
    WriteOne<int32_t>(file, "iter", head.iter());
    file.WriteString("learned_net", head.learned_net());
    WriteOne<int32_t>(file, "current_step", head.current_step());
    file.CreateGroup("history");
    for (size_t i = 0; i < history.size(); ++i) {
      file.Write<T>(fmt::format("history/{}", i), history[i].shape(),
                    history[i].DataToHost(stream));
    }
    if (head.has_carafe()) WriteOurs(head.carafe(), file);
    file.Close();
  });
}

std::string SerializeSnapshot(const google::protobuf::MessageLite& message,
                              const std::string& path) {
  std::string bytes;
  if (message.ByteSizeLong() > INT_MAX || !message.SerializeToString(&bytes)) {
    throw DataError(path, -1, "the snapshot is larger than a binaryproto file can be (2 GiB)",
                    "use snapshot_format: HDF5");
  }
  return bytes;
}

#define CARAFE_INSTANTIATE(T)                                                        \
  template void WriteStateFile<T>(Stream&, SolverState, const std::vector<Blob<T>>&, \
                                  SolverParameter::SnapshotFormat, const std::string&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
