#include "carafe/data/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "carafe/data/sampler.h"

namespace carafe {

std::string ArrayView::SizeText() const { return fmt::format("{}", fmt::join(shape.dims(), "x")); }

Shapes DataSet::SampleShapes() const {
  const std::unique_ptr<RecordReader> reader = NewReader();
  Shapes shapes;
  for (const ArrayView& array : reader->Read(0).arrays) shapes.push_back(array.shape);
  return shapes;
}

int64_t DataSet::ShuffledRecord(uint64_t key, int64_t epoch, int64_t position) const {
  return ShuffledIndex(key, epoch, size(), position);
}

LabelledImage::LabelledImage() {
  sample_.arrays.resize(2);
  sample_.arrays[1].doubles = {&label_, 1};
}

}  // namespace carafe
