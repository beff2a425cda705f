// The content of one database record: a serialized Datum, checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "carafe/data/database.h"
#include "carafe/data/dataset.h"
#include "carafe/data/picture.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Channels x height x width values, as bytes or as floats (the other span is empty). The spans
// point into the Datum that was parsed.
struct DatumView {
  int64_t channels = 0, height = 0, width = 0;
  int label = 0;
  std::span<const uint8_t> bytes;
  std::span<const float> floats;

  int64_t count() const { return channels * height * width; }
  bool SameSize(const DatumView& other) const {
    return channels == other.channels && height == other.height && width == other.width;
  }
  std::string SizeText() const;  // "3x32x32"
};

// Parses record `index` of `database` into `storage`, which may be used again for the next record.
// An encoded image is decoded as `mode` says. Throws DataError (path, position, key) for bytes that
// are no Datum, a size that does not fit, or an image that cannot be read.
DatumView ReadDatum(const Database& database, int64_t index, Datum* storage,
                    PictureMode mode = PictureMode::kUnchanged);

// The two steps of ReadDatum for records that are not encoded.
void ParseDatum(const Database& database, int64_t index, const Record& record, Datum* storage);
DatumView CheckedView(const Database& database, int64_t index, const Record& record,
                      const Datum& datum);

// Puts an image into `datum` as planes, with its size; the label stays. The view points into it.
DatumView SetPicture(const Picture& picture, Datum* datum);

// Lets `array` show an image. Its pixels must outlive the view.
void SetImage(const DatumView& image, ArrayView* array);
void SetImage(const Picture& image, ArrayView* array);

}  // namespace carafe
