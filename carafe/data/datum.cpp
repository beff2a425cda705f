#include "carafe/data/datum.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

[[noreturn]] void Fail(const Database& database, int64_t index, std::string_view key,
                       const std::string& what, const std::string& fix) {
  throw DataError(database.name(), index, fmt::format("(key \"{}\") {}", key, what), fix);
}

std::span<const uint8_t> BytesOf(const Datum& datum) {
  return {reinterpret_cast<const uint8_t*>(datum.data().data()), datum.data().size()};
}

// Called for every record: a Shape is only built where the size has changed.
void SetShape(int64_t channels, int64_t height, int64_t width, ArrayView* array) {
  const std::span<const int64_t> now = array->shape.dims();
  if (now.size() == 3 && now[0] == channels && now[1] == height && now[2] == width) return;
  array->shape = {channels, height, width};
}

}  // namespace

std::string DatumView::SizeText() const { return fmt::format("{}x{}x{}", channels, height, width); }

DatumView SetPicture(const Picture& picture, Datum* datum) {
  datum->set_channels(static_cast<int>(picture.channels));
  datum->set_height(static_cast<int>(picture.height));
  datum->set_width(static_cast<int>(picture.width));
  datum->set_data(PlanesOf(picture));
  datum->clear_encoded();
  return {.channels = picture.channels,
          .height = picture.height,
          .width = picture.width,
          .label = datum->label(),
          .bytes = BytesOf(*datum)};
}

void ParseDatum(const Database& database, int64_t index, const Record& record, Datum* storage) {
  // Protobuf counts in int.
  if (record.value.size() > INT32_MAX ||
      !storage->ParseFromArray(record.value.data(), static_cast<int>(record.value.size()))) {
    Fail(database, index, record.key,
         fmt::format("is not a Datum message ({} bytes)", record.value.size()),
         "the record is damaged, or the database was made for another program; make it again");
  }
}

DatumView CheckedView(const Database& database, int64_t index, const Record& record,
                      const Datum& datum) {
  DatumView view{.channels = datum.channels(),
                 .height = datum.height(),
                 .width = datum.width(),
                 .label = datum.label()};
  if (datum.data().empty()) {
    view.floats = {datum.float_data().data(), static_cast<size_t>(datum.float_data_size())};
  } else {
    view.bytes = BytesOf(datum);
  }
  const size_t have = view.bytes.size() + view.floats.size();
  int64_t area = 0, count = 0;
  if (view.channels <= 0 || view.height <= 0 || view.width <= 0 ||
      __builtin_mul_overflow(view.channels, view.height, &area) ||
      __builtin_mul_overflow(area, view.width, &count) || static_cast<uint64_t>(count) != have) {
    Fail(database, index, record.key,
         fmt::format("says {} (channels x height x width) but holds {} {}", view.SizeText(), have,
                     datum.data().empty() ? "floats" : "bytes"),
         "the record is damaged or was made wrongly; make the database again");
  }
  return view;
}

DatumView ReadDatum(const Database& database, int64_t index, Datum* storage, PictureMode mode) {
  const Record record = database.Read(index);
  ParseDatum(database, index, record, storage);
  if (!storage->encoded()) return CheckedView(database, index, record, *storage);
  const PictureOrigin origin{.file = database.name(), .record = index, .key = record.key};
  return SetPicture(DecodePicture(storage->data(), mode, origin), storage);
}

void SetImage(const DatumView& image, ArrayView* array) {
  SetShape(image.channels, image.height, image.width, array);
  array->bytes = image.bytes;
  array->floats = image.floats;
  array->interleaved = false;
}

void SetImage(const Picture& image, ArrayView* array) {
  SetShape(image.channels, image.height, image.width, array);
  array->bytes = image.pixels;
  array->floats = {};
  array->interleaved = true;
}

}  // namespace carafe
