// The rows of HDF5 files as a data set.
#include <fmt/format.h>

#include <type_traits>

#include "carafe/data/datasets.h"
#include "carafe/data/hdf5_rows.h"
#include "carafe/data/text_list.h"

namespace carafe {
namespace {

template <typename T>
class Hdf5RowReader final : public RecordReader {
 public:
  explicit Hdf5RowReader(const Hdf5Rows& rows) : items_(rows.items()), reader_(rows) {
    for (const Shape& item : items_) sample_.arrays.push_back({item});
  }

  const Sample& Read(int64_t index) override {
    const std::vector<const T*>& values = reader_.Row(index);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const T> view(values[i], static_cast<size_t>(items_[i].Count()));
      if constexpr (std::is_same_v<T, float>) {
        sample_.arrays[i].floats = view;
      } else {
        sample_.arrays[i].doubles = view;
      }
    }
    return sample_;
  }

 private:
  const Shapes& items_;
  Hdf5Reader<T> reader_;
  Sample sample_;
};

template <typename T>
class Hdf5RowSet final : public DataSet {
 public:
  Hdf5RowSet(const std::string& list, const std::vector<std::string>& datasets)
      : list_(list), rows_(list, datasets) {}
  const std::string& name() const override { return list_; }
  int64_t size() const override { return rows_.size(); }
  std::string Fingerprint() const override {
    return fmt::format("{} rows, {}", size(), TextList(list_).Fingerprint());
  }
  std::string Describe(int64_t index) const override {
    const Hdf5Rows::Block& block = rows_.blocks()[rows_.BlockOf(index)];
    return fmt::format("(row {} of {})", block.first + index - block.begin, block.path);
  }
  Shapes SampleShapes() const override { return rows_.items(); }
  int64_t ShuffledRecord(uint64_t key, int64_t epoch, int64_t position) const override {
    return rows_.ShuffledRow(key, epoch, position);
  }
  std::unique_ptr<RecordReader> NewReader() const override {
    return std::make_unique<Hdf5RowReader<T>>(rows_);
  }

 private:
  const std::string list_;
  const Hdf5Rows rows_;
};

}  // namespace

template <typename T>
std::unique_ptr<const DataSet> OpenHdf5Rows(const std::string& list,
                                            const std::vector<std::string>& datasets) {
  return std::make_unique<Hdf5RowSet<T>>(list, datasets);
}

template std::unique_ptr<const DataSet> OpenHdf5Rows<float>(const std::string&,
                                                            const std::vector<std::string>&);
template std::unique_ptr<const DataSet> OpenHdf5Rows<double>(const std::string&,
                                                             const std::vector<std::string>&);

}  // namespace carafe
