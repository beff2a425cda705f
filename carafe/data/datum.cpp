#include "carafe/data/datum.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

[[noreturn]] void Fail(const Source& source, int64_t index, std::string_view key,
                       const std::string& what, const std::string& fix) {
  throw DataError(source.name(), index, fmt::format("(key \"{}\") {}", key, what), fix);
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
          .bytes = {reinterpret_cast<const uint8_t*>(datum->data().data()), datum->data().size()}};
}

DatumView ReadDatum(const Source& source, int64_t index, Datum* storage, PictureMode mode) {
  const Record record = source.Read(index);
  // Protobuf counts in int.
  if (record.value.size() > INT32_MAX ||
      !storage->ParseFromArray(record.value.data(), static_cast<int>(record.value.size()))) {
    Fail(source, index, record.key,
         fmt::format("is not a Datum message ({} bytes)", record.value.size()),
         "the record is damaged, or the database was made for another program; make it again");
  }
  if (storage->encoded()) {
    const PictureOrigin origin{.file = source.name(), .record = index, .key = record.key};
    return SetPicture(DecodePicture(storage->data(), mode, origin), storage);
  }

  DatumView view{.channels = storage->channels(),
                 .height = storage->height(),
                 .width = storage->width(),
                 .label = storage->label()};
  const bool use_floats = storage->data().empty();
  const auto have = static_cast<int64_t>(use_floats ? storage->float_data_size()
                                                    : static_cast<int64_t>(storage->data().size()));
  int64_t area = 0, count = 0;
  if (view.channels <= 0 || view.height <= 0 || view.width <= 0 ||
      __builtin_mul_overflow(view.channels, view.height, &area) ||
      __builtin_mul_overflow(area, view.width, &count) || count != have) {
    Fail(source, index, record.key,
         fmt::format("says {} (channels x height x width) but holds {} {}", view.SizeText(), have,
                     use_floats ? "floats" : "bytes"),
         "the record is damaged or was made wrongly; make the database again");
  }
  if (use_floats) {
    view.floats = {storage->float_data().data(), static_cast<size_t>(have)};
  } else {
    view.bytes = {reinterpret_cast<const uint8_t*>(storage->data().data()),
                  static_cast<size_t>(have)};
  }
  return view;
}

}  // namespace carafe
