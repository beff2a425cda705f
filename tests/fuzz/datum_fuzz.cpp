// The value of a database record: read as a Datum, transformed in several ways.
#include "carafe/data/datasets.h"
#include "carafe/data/transform.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_database.h"

namespace carafe::fuzz {
namespace {

constexpr int64_t kMostElements = 1 << 20;

void ReadAndTransform(const MemoryDatabase::Records& records, const char* settings, Phase phase) {
  TransformationParameter param;
  ParseText(settings, "settings", &param);
  const auto transform = NewTransform(param, phase, {});
  const auto data =
      NewDatabaseSet(std::make_unique<MemoryDatabase>(records), DecodeMode(param, {}));
  const auto reader = data->NewReader();
  const Sample& sample = reader->Read(0);
  const Shape shape = transform->OutputShape(sample.arrays[0].shape);
  if (shape.Count() > kMostElements) return;
  std::vector<float> out(static_cast<size_t>(shape.Count()));
  transform->Apply(sample, RandomKey{.key = 1}, 0, out.data());
}

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  fuzz::Folder();
  const carafe::MemoryDatabase::Records records = {{"key", std::string(fuzz::Text(data, size))}};
  for (const char* settings : {"", "crop_size: 3 mirror: true mean_value: 2", "force_gray: true"})
    for (const carafe::Phase phase : {carafe::TRAIN, carafe::TEST})
      fuzz::Try([&] { fuzz::ReadAndTransform(records, settings, phase); });
  return 0;
}
