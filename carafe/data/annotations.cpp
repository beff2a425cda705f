#include "carafe/data/annotations.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/data/datasets.h"
#include "carafe/data/datum.h"
#include "carafe/data/text_list.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

constexpr size_t kNumbers = 7;  // of a box

Picture Interleaved(const DatumView& image) {
  Picture picture{image.height, image.width, image.channels, {}};
  picture.pixels.reserve(image.bytes.size());
  const int64_t plane = image.height * image.width;
  for (int64_t at = 0; at < plane; ++at) {
    for (int64_t c = 0; c < image.channels; ++c) {
      picture.pixels.push_back(image.bytes[static_cast<size_t>(c * plane + at)]);
    }
  }
  return picture;
}

class AnnotatedReader final : public RecordReader {
 public:
  AnnotatedReader(const Database& database, PictureMode mode)
      : database_(database), mode_(mode), sample_{.arrays = std::vector<ArrayView>(2)} {}

  const Sample& Read(int64_t index) override {
    const Record record = database_.Read(index);
    const auto fail = [&](const std::string& what) {
      throw DataError(database_.name(), index, fmt::format("(key \"{}\") {}", record.key, what),
                      "make the database again, e.g. with SSD's convert_annoset");
    };
    if (record.value.size() > INT32_MAX ||
        !datum_.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())) ||
        !datum_.has_datum()) {
      fail(fmt::format("is not an AnnotatedDatum message ({} bytes)", record.value.size()));
    }
    const Datum& image = datum_.datum();
    if (image.encoded()) {
      picture_ = DecodePicture(image.data(), mode_,
                               {.file = database_.name(), .record = index, .key = record.key});
    } else {
      const DatumView view = CheckedView(database_, index, record, image);
      if (!view.floats.empty()) fail("holds an image of floats, not of bytes");
      picture_ = Interleaved(view);
    }
    SetImage(picture_, &sample_.arrays[0]);
    boxes_.clear();
    for (const AnnotationGroup& group : datum_.annotation_group()) {
      for (const Annotation& one : group.annotation()) {
        const NormalizedBBox& box = one.bbox();
        for (const float number :
             {static_cast<float>(group.group_label()), static_cast<float>(one.instance_id()),
              box.xmin(), box.ymin(), box.xmax(), box.ymax(), box.difficult() ? 1.0F : 0.0F}) {
          if (!std::isfinite(number)) fail("has a box whose corners are no numbers");
          boxes_.push_back(number);
        }
      }
    }
    sample_.arrays[1].shape = {static_cast<int64_t>(boxes_.size() / kNumbers), kNumbers};
    sample_.arrays[1].floats = boxes_;
    return sample_;
  }

 private:
  const Database& database_;
  const PictureMode mode_;
  AnnotatedDatum datum_;
  Picture picture_;
  std::vector<float> boxes_;
  Sample sample_;
};

}  // namespace

std::unique_ptr<const DataSet> NewAnnotatedSet(std::unique_ptr<const Database> database,
                                               PictureMode mode) {
  return NewRecordSet(std::move(database), [mode](const Database& records) {
    return std::make_unique<AnnotatedReader>(records, mode);
  });
}

std::vector<AnnotatedBox> BoxesOf(const Sample& sample) {
  std::vector<AnnotatedBox> boxes;
  const std::span<const float> rows = sample.arrays[1].floats;
  for (size_t r = 0; r + kNumbers <= rows.size(); r += kNumbers) {
    boxes.push_back({static_cast<int>(rows[r]),
                     static_cast<int>(rows[r + 1]),
                     {rows[r + 2], rows[r + 3], rows[r + 4], rows[r + 5]},
                     rows[r + 6] != 0});
  }
  return boxes;
}

}  // namespace carafe
