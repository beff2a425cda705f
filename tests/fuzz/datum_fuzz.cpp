// The value of a database record: read as a Datum, transformed in several ways.
#include "carafe/data/datum.h"
#include "carafe/data/transform.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_source.h"

namespace carafe::fuzz {
namespace {

constexpr int64_t kMostElements = 1 << 20;

void ReadAndTransform(const Source& source, const char* settings, Phase phase) {
  TransformationParameter param;
  ParseText(settings, "settings", &param);
  Datum storage;
  const Transformer transformer(param, phase, {});
  const DatumView view = ReadDatum(source, 0, &storage, transformer.picture_mode());
  const Shape shape = transformer.OutputShape(view);
  if (shape.Count() > kMostElements) return;
  std::vector<float> out(static_cast<size_t>(shape.Count()));
  transformer.Apply(view, RandomKey{.key = 1}, 0, out.data());
}

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  fuzz::Folder();
  const carafe::MemorySource source({{"key", std::string(fuzz::Text(data, size))}});
  for (const char* settings : {"", "crop_size: 3 mirror: true mean_value: 2", "force_gray: true"})
    for (const carafe::Phase phase : {carafe::TRAIN, carafe::TEST})
      fuzz::Try([&] { fuzz::ReadAndTransform(source, settings, phase); });
  return 0;
}
