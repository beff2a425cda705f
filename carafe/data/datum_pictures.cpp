#include <fmt/format.h>

#include "carafe/data/pictures.h"

namespace carafe {
namespace {

class DatumPictures final : public Pictures {
 public:
  DatumPictures(std::unique_ptr<const Source> source, PictureMode mode)
      : source_(std::move(source)), mode_(mode) {}
  const std::string& name() const override { return source_->name(); }
  int64_t size() const override { return source_->size(); }
  DatumView Read(int64_t index, Datum* storage) const override {
    return ReadDatum(*source_, index, storage, mode_);
  }
  std::string Describe(int64_t index) const override {
    return fmt::format("(key \"{}\")", source_->Read(index).key);
  }

 private:
  const std::unique_ptr<const Source> source_;
  const PictureMode mode_;
};

}  // namespace

std::unique_ptr<const Pictures> MakeDatumPictures(std::unique_ptr<const Source> source,
                                                  PictureMode mode) {
  return std::make_unique<DatumPictures>(std::move(source), mode);
}

}  // namespace carafe
