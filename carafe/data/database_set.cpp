// Datum records of an LMDB or LevelDB as a data set.
#include <fmt/format.h>

#include "carafe/data/datasets.h"
#include "carafe/data/datum.h"
#include "carafe/data/text_list.h"

namespace carafe {
namespace {

class DatumReader final : public RecordReader {
 public:
  DatumReader(const Database& database, PictureMode mode) : database_(database), mode_(mode) {}

  const Sample& Read(int64_t index) override {
    const Record record = database_.Read(index);
    ParseDatum(database_, index, record, &datum_);
    if (datum_.encoded()) {
      picture_ = DecodePicture(datum_.data(), mode_,
                               {.file = database_.name(), .record = index, .key = record.key});
      SetImage(picture_, &image_.image());
    } else {
      SetImage(CheckedView(database_, index, record, datum_), &image_.image());
    }
    image_.set_label(datum_.label());
    return image_.sample();
  }

 private:
  const Database& database_;
  const PictureMode mode_;
  Datum datum_;
  Picture picture_;
  LabelledImage image_;
};

class RecordSet final : public DataSet {
 public:
  RecordSet(std::unique_ptr<const Database> database, NewRecordReader new_reader)
      : database_(std::move(database)), new_reader_(std::move(new_reader)) {}
  const std::string& name() const override { return database_->name(); }
  int64_t size() const override { return database_->size(); }
  std::string Fingerprint() const override {
    const int64_t records = size();
    return fmt::format("{} records, keys \"{}\" to \"{}\"", records,
                       Printable(database_->Read(0).key),
                       Printable(database_->Read(records - 1).key));
  }
  std::string Describe(int64_t index) const override {
    return fmt::format("(key \"{}\")", database_->Read(index).key);
  }
  std::unique_ptr<RecordReader> NewReader() const override { return new_reader_(*database_); }

 private:
  const std::unique_ptr<const Database> database_;
  const NewRecordReader new_reader_;
};

}  // namespace

std::unique_ptr<const DataSet> NewRecordSet(std::unique_ptr<const Database> database,
                                            NewRecordReader new_reader) {
  return std::make_unique<RecordSet>(std::move(database), std::move(new_reader));
}

std::unique_ptr<const DataSet> NewDatabaseSet(std::unique_ptr<const Database> database,
                                              PictureMode mode) {
  return NewRecordSet(std::move(database), [mode](const Database& records) {
    return std::make_unique<DatumReader>(records, mode);
  });
}

}  // namespace carafe
