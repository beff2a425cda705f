#include "carafe/solvers/state_binary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <fstream>
#include <type_traits>
#include <utility>

#include "carafe/base/file_access.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/proto/dialects.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::FileOutputStream;
using google::protobuf::io::IstreamInputStream;
using google::protobuf::io::StringOutputStream;
using Wire = google::protobuf::internal::WireFormatLite;

static_assert(std::endian::native == std::endian::little, "packed values are copied to the file");

constexpr int kTensorsNumber = 10001;   // of TensorParts, beside the fields of StateHead
constexpr int kChecksumNumber = 10003;  // verified before the file is parsed

constexpr uint32_t TagOf(int field) {
  return Wire::MakeTag(field, Wire::WIRETYPE_LENGTH_DELIMITED);
}

// ---- writing ----

// A history or TensorPart is written as its other fields, then the values as one packed field.
struct Frame {
  uint32_t tag = 0;         // of the record in SolverState
  std::string fields;       // of the record, but for the values
  uint32_t values_tag = 0;  // of the values in the record
};

template <typename T>
Frame FrameOf(const TensorShard& shard) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  if (shard.whole() && HistoryIndex(shard.name) >= 0) {
    BlobProto blob;  // a scalar has no shape, as in ToBlobProto
    for (const int64_t dim : shard.shape.dims()) blob.mutable_shape()->add_dim(dim);
    return {TagOf(SolverState::kHistoryFieldNumber), blob.SerializeAsString(),
            TagOf(kFloat ? BlobProto::kDataFieldNumber : BlobProto::kDoubleDataFieldNumber)};
  }
  TensorPart part;
  part.set_name(shard.name);
  part.set_first(shard.first);
  for (const int64_t dim : shard.shape.dims()) part.add_shape(dim);
  return {TagOf(kTensorsNumber), part.SerializeAsString(),
          TagOf(kFloat ? TensorPart::kDataFieldNumber : TensorPart::kDoubleDataFieldNumber)};
}

template <typename T>
class BinarySink final : public TensorSink<T> {
 public:
  BinarySink(CodedOutputStream& out, const std::string& path) : out_(out), path_(path) {}

  void Begin(const TensorShard& shard) override {
    CheckComplete();
    if (shard.whole() && HistoryIndex(shard.name) >= 0) {
      Ensure(shard.name == HistoryName(histories_++), "histories out of order");
    }
    const Frame frame = FrameOf<T>(shard);
    const int64_t bytes = shard.count * static_cast<int64_t>(sizeof(T));
    const int64_t size =
        static_cast<int64_t>(frame.fields.size()) +
        static_cast<int64_t>(CodedOutputStream::VarintSize32(frame.values_tag)) +
        static_cast<int64_t>(CodedOutputStream::VarintSize64(static_cast<uint64_t>(bytes))) + bytes;
    if (size > INT_MAX - kMargin - out_.ByteCount()) throw TooLargeForBinaryproto(path_);
    out_.WriteTag(frame.tag);
    out_.WriteVarint32(static_cast<uint32_t>(size));
    out_.WriteString(frame.fields);
    out_.WriteTag(frame.values_tag);
    out_.WriteVarint32(static_cast<uint32_t>(bytes));
    left_ = shard.count;
  }
  void Write(std::span<const T> values) override {
    left_ -= static_cast<int64_t>(values.size());
    Ensure(left_ >= 0, "more values than announced");
    if (!values.empty()) out_.WriteRaw(values.data(), static_cast<int>(values.size_bytes()));
  }
  void CheckComplete() const { Ensure(left_ == 0, "a shard lacks values"); }

 private:
  static constexpr int64_t kMargin = 32;  // tags and lengths around a record
  CodedOutputStream& out_;
  const std::string path_;
  int64_t left_ = 0;  // values of the shard
  size_t histories_ = 0;
};

// ---- reading ----

// Fields that a later version has written. They are kept in the message, and written again.
void LogUnknownFields(const Message& message, const std::string& where, const std::string& path) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    LogInfo("{}: field {} of {} is unknown to this version and ignored", path,
            unknown.field(i).number(), where);
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) continue;
    LogUnknownFields(message.GetReflection()->GetMessage(message, field), field->name(), path);
  }
}

// Where the records of the tensors lie in the file; their values stay there until they are read.
class BinarySource final : public TensorSource {
 public:
  explicit BinarySource(const std::string& path) : path_(path) {
    std::ifstream file = OpenFile(path);
    IstreamInputStream stream(&file);
    Forks forks;
    const bool whole = Index(&stream, &forks);
    if (!whole || !head_.has_iter()) throw NotWhole();
    LogForks(forks, path);
    LogUnknownFields(head_, "the state", path);
  }
  const StateHead& head() const { return head_; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorShard>& shards() const override { return shards_; }
  std::vector<double> Read(size_t index) const override {
    const Record& record = records_[index];
    std::string bytes(record.size, '\0');
    std::ifstream file = OpenFile(path_);
    file.seekg(record.offset);
    file.read(bytes.data(), static_cast<std::streamsize>(record.size));
    if (!file) throw NotWhole();
    Forks forks;  // logged when the file was opened
    TensorShard shard;
    std::vector<double> values;
    if (!Parse(record, bytes, &forks, &shard, &values)) throw NotWhole();
    return values;
  }

 private:
  struct Record {
    bool history = false;  // a BlobProto of Caffe, or a TensorPart
    size_t number = 0;     // among its kind
    std::streamoff offset = 0;
    size_t size = 0;
  };

  DataError NotWhole() const {
    std::ifstream file(path_, std::ios::binary | std::ios::ate);
    return DataError(path_, -1,
                     fmt::format("this is not a whole .solverstate ({} bytes)",
                                 static_cast<int64_t>(file.tellg())),
                     "the file is truncated or of another kind; try --snapshot=auto");
  }

  // Records of tensors are parsed one by one, so that no more than one is in memory; all other
  // fields go into head_. Returns whether the file is a whole message.
  bool Index(IstreamInputStream* stream, Forks* forks) {
    CodedInputStream in(stream);
    std::string rest;
    {
      StringOutputStream rest_stream(&rest);
      CodedOutputStream rest_out(&rest_stream);
      size_t histories = 0, parts = 0;
      for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
        if (tag == TagOf(kChecksumNumber)) {
          if (!Wire::SkipField(&in, tag)) return false;
          continue;
        }
        const bool history = tag == TagOf(SolverState::kHistoryFieldNumber);
        if (!history && tag != TagOf(kTensorsNumber)) {
          if (!Wire::SkipField(&in, tag, &rest_out)) return false;
          continue;
        }
        if (!IndexRecord(&in, {.history = history, .number = history ? histories++ : parts++},
                         forks))
          return false;
      }
      if (!in.ConsumedEntireMessage()) return false;
    }
    return head_.ParseFromString(rest);
  }
  bool IndexRecord(CodedInputStream* in, Record record, Forks* forks) {
    uint32_t size = 0;
    std::string bytes;
    if (!in->ReadVarint32(&size)) return false;
    record.offset = in->CurrentPosition();
    record.size = size;
    if (size > INT_MAX || !in->ReadString(&bytes, static_cast<int>(size))) return false;
    TensorShard shard;
    std::vector<double> values;
    if (!Parse(record, bytes, forks, &shard, &values)) return false;
    records_.push_back(record);
    shards_.push_back(std::move(shard));
    return true;
  }
  // False: not a message. Throws DataError for values that do not fit the shape.
  bool Parse(const Record& record, const std::string& bytes, Forks* forks, TensorShard* shard,
             std::vector<double>* values) const {
    if (!record.history) return ParsePart(bytes, shard, values);
    const std::string what = fmt::format("history blob {}", record.number);
    BlobProto blob;
    if (!blob.ParseFromString(bytes)) return false;
    ConvertDialect(&blob, what, path_, forks);
    *values = BlobProtoValues(blob, path_, what);
    *shard = {.name = HistoryName(record.number),
              .shape = BlobProtoShape(blob),
              .first = 0,
              .count = static_cast<int64_t>(values->size())};
    return true;
  }
  bool ParsePart(const std::string& bytes, TensorShard* shard, std::vector<double>* values) const {
    TensorPart part;
    if (!part.ParseFromString(bytes)) return false;
    if (part.double_data_size() > 0) {
      values->assign(part.double_data().begin(), part.double_data().end());
    } else {
      values->assign(part.data().begin(), part.data().end());
    }
    try {
      *shard = {.name = part.name(),
                .shape = Shape(std::vector<int64_t>(part.shape().begin(), part.shape().end())),
                .first = part.first(),
                .count = static_cast<int64_t>(values->size())};
    } catch (const ConfigError&) {
      throw DataError(path_, -1, fmt::format("tensor {} has an impossible shape", part.name()),
                      "the file is damaged; fetch or write it again");
    }
    return true;
  }

  const std::string path_;
  StateHead head_;
  std::vector<TensorShard> shards_;
  std::vector<Record> records_;  // of the shards
};

}  // namespace

DataError TooLargeForBinaryproto(const std::string& path) {
  return {path, -1, "the snapshot is larger than a binaryproto file can be (2 GiB)",
          "use snapshot_format: HDF5"};
}

StateFile OpenBinaryState(const std::string& path) {
  auto source = std::make_unique<BinarySource>(path);
  StateHead head = source->head();
  return {.head = std::move(head), .tensors = std::move(source)};
}

StateFileFacts ReadBinaryFacts(const std::string& path) {
  std::ifstream file = OpenFile(path);
  IstreamInputStream stream(&file);
  CodedInputStream in(&stream);
  StateFileFacts facts;
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (tag == TagOf(SolverState::kHistoryFieldNumber) || tag == TagOf(kTensorsNumber)) break;
    if (tag != TagOf(StateHead::kFileFieldNumber)) {
      if (!Wire::SkipField(&in, tag)) break;
      continue;
    }
    std::string bytes;
    if (!Wire::ReadBytes(&in, &bytes) || !facts.ParseFromString(bytes)) facts.Clear();
    break;
  }
  return facts;
}

template <typename T>
void WriteBinaryState(const std::string& path, const StateHead& head,
                      const WriteTensors<T>& write) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) throw FileError(path, "opening for writing", errno);
  FileOutputStream file(descriptor);
  file.SetCloseOnDelete(true);
  {
    CodedOutputStream out(&file);
    StateHead announcement, rest = head;  // that of the checksum first: see StateFileFacts
    announcement.mutable_file()->Swap(rest.mutable_file());
    rest.clear_file();
    announcement.SerializeToCodedStream(&out);
    rest.SerializeToCodedStream(&out);
    BinarySink<T> sink(out, path);
    write(sink);
    sink.CheckComplete();
  }
  if (!file.Flush() || file.GetErrno() != 0) throw FileError(path, "writing", file.GetErrno());
}

template void WriteBinaryState<float>(const std::string&, const StateHead&,
                                      const WriteTensors<float>&);
template void WriteBinaryState<double>(const std::string&, const StateHead&,
                                       const WriteTensors<double>&);

}  // namespace carafe
