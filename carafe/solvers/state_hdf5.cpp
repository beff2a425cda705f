#include "carafe/solvers/state_hdf5.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/solvers/message_hdf5.h"

namespace carafe {
namespace {

// Groups of their own form: tensors are streamed.
const std::vector<std::string_view> kTensorGroups = {"history", "tensors"};

// Names of the datasets of tensors/<i>: the fields of TensorPart.
struct PartNames {
  explicit PartNames(size_t index)
      : group(fmt::format("tensors/{}", index)),
        name(group + "/name"),
        shape(group + "/shape"),
        first(group + "/first"),
        floats(group + "/data"),
        doubles(group + "/double_data") {}
  std::string group, name, shape, first, floats, doubles;
};

// libhdf5 writes a dataset in one call, so the pieces of a shard are collected.
template <typename T>
class Hdf5Sink final : public TensorSink<T> {
 public:
  explicit Hdf5Sink(Hdf5File& file) : file_(file) { file_.CreateGroup("history"); }

  void Begin(const TensorShard& shard) override {
    CheckComplete();
    shard_ = shard;
    values_.clear();
    values_.reserve(static_cast<size_t>(shard.count));
    if (shard.count == 0) Store();
  }
  void Write(std::span<const T> values) override {
    values_.insert(values_.end(), values.begin(), values.end());
    Ensure(static_cast<int64_t>(values_.size()) <= shard_.count, "more values than announced");
    if (!values.empty() && static_cast<int64_t>(values_.size()) == shard_.count) Store();
  }
  void CheckComplete() const {
    Ensure(static_cast<int64_t>(values_.size()) == shard_.count, "a shard lacks values");
  }

 private:
  void Store() {
    if (shard_.whole() && HistoryIndex(shard_.name) >= 0) {
      Ensure(shard_.name == HistoryName(histories_++), "histories out of order");
      file_.Write<T>(shard_.name, shard_.shape, values_);
      return;
    }
    if (parts_ == 0) file_.CreateGroup("tensors");
    const PartNames names(parts_++);
    file_.CreateGroup(names.group);
    file_.WriteString(names.name, shard_.name);
    file_.Write<int64_t>(names.shape, {shard_.shape.rank()}, shard_.shape.dims());
    file_.Write<int64_t>(names.first, {1}, std::span(&shard_.first, 1));
    file_.Write<T>(std::is_same_v<T, float> ? names.floats : names.doubles, {shard_.count},
                   values_);
  }

  Hdf5File& file_;
  TensorShard shard_;
  std::vector<T> values_;  // of the shard, so far
  size_t histories_ = 0;   // whole ones, written
  size_t parts_ = 0;       // tensors/<i>, written
};

class Hdf5Source final : public TensorSource {
 public:
  explicit Hdf5Source(const std::string& path) : file_(path) {
    if (!file_.HasDataset("iter") || !file_.HasGroup("history")) {
      throw DataError(path, -1, "this HDF5 file is not a .solverstate",
                      "give the .solverstate.h5, not the weights");
    }
    ReadMessageFields(file_, "", &head_, kTensorGroups);
    const size_t histories = file_.Members("history").size();
    for (size_t i = 0; i < histories; ++i) {
      const std::string name = HistoryName(i);
      const Shape shape = file_.DatasetShape(name);
      Add({.name = name, .shape = shape, .first = 0, .count = shape.Count()}, name);
    }
    const size_t parts = file_.HasGroup("tensors") ? file_.Members("tensors").size() : 0;
    for (size_t i = 0; i < parts; ++i) AddPart(PartNames(i));
  }
  const StateHead& head() const { return head_; }
  const std::string& path() const override { return file_.path(); }
  const std::vector<TensorShard>& shards() const override { return shards_; }
  std::vector<double> Read(size_t index) const override {
    return file_.Read<double>(datasets_[index]);
  }

 private:
  void AddPart(const PartNames& names) {
    const std::string values = file_.HasDataset(names.floats) ? names.floats : names.doubles;
    TensorShard shard;
    shard.name = file_.ReadString(names.name);
    try {
      shard.shape = Shape(file_.Read<int64_t>(names.shape));
    } catch (const ConfigError&) {
      throw DataError(path(), -1, fmt::format("tensor {} has an impossible shape", shard.name),
                      "the file is damaged; fetch or write it again");
    }
    shard.first = ReadOneValue<int64_t>(file_, names.first);
    shard.count = file_.DatasetShape(values).Count();
    Add(shard, values);
  }
  void Add(const TensorShard& shard, const std::string& dataset) {
    shards_.push_back(shard);
    datasets_.push_back(dataset);
  }

  const Hdf5File file_;
  StateHead head_;
  std::vector<TensorShard> shards_;
  std::vector<std::string> datasets_;  // of the shards' values
};

}  // namespace

StateFile OpenHdf5State(const std::string& path) {
  auto source = std::make_unique<Hdf5Source>(path);
  StateHead head = source->head();
  return {.head = std::move(head), .tensors = std::move(source)};
}

StateFileFacts ReadHdf5Facts(const std::string& path) {
  const Hdf5File file(path);
  StateFileFacts facts;
  if (file.HasGroup("file")) ReadMessageFields(file, "file", &facts);
  return facts;
}

template <typename T>
void WriteHdf5State(const std::string& path, const StateHead& head, const WriteTensors<T>& write) {
  Hdf5File file(path, Hdf5File::Mode::kCreate);
  WriteMessageFields(head, "", file);
  Hdf5Sink<T> sink(file);
  write(sink);
  sink.CheckComplete();
  file.Close();
}

template void WriteHdf5State<float>(const std::string&, const StateHead&,
                                    const WriteTensors<float>&);
template void WriteHdf5State<double>(const std::string&, const StateHead&,
                                     const WriteTensors<double>&);

}  // namespace carafe
