// In which order a blob's elements lie in memory, and the kernels that change it in place. These
// are here and not in kernels/ because a blob reorders itself. CPU and float only.
#pragma once

#include <cstdint>

#include "carafe/core/shape.h"
#include "carafe/core/stream.h"

namespace carafe {

enum class Format {
  kPlain,     // C order, as the shape says
  kBlocked8,  // nChw8c: (images, ceil(channels / 8), plane, 8); channels that fill up the last
              // block are zero, and a writer of the format must keep them so
};

constexpr int64_t kBlockChannels = 8;  // channels that lie side by side in kBlocked8

const char* FormatName(Format format);  // "plain", "blocked8"

// A blob as kBlocked8 sees it: axis 0, axis 1, and all further axes together.
struct BlockedGeometry {
  int64_t images = 0, channels = 0, plane = 0;

  int64_t blocks() const { return (channels + kBlockChannels - 1) / kBlockChannels; }
  int64_t count() const { return images * channels * plane; }
  int64_t padded_count() const { return images * blocks() * plane * kBlockChannels; }
  bool operator==(const BlockedGeometry&) const = default;
};

// Shapes with an axis of images, one of channels, and at least one more.
inline bool HasBlockedGeometry(const Shape& shape) { return shape.rank() >= 3; }
inline BlockedGeometry BlockedGeometryOf(const Shape& shape) {
  return {shape[0], shape[1], shape.Count(2)};
}

// Both change `values`, which has room for padded_count() elements, in place; the scratch that they
// take is one block of one image per thread.
void PlainToBlocked(Stream& stream, const BlockedGeometry& g, float* values);
void BlockedToPlain(Stream& stream, const BlockedGeometry& g, float* values);
// The same from one place to another.
void PlainToBlocked(Stream& stream, const BlockedGeometry& g, const float* plain, float* blocked);
void BlockedToPlain(Stream& stream, const BlockedGeometry& g, const float* blocked, float* plain);
// Zeroes the channels that fill up the last block of every image; the others stay.
void ZeroPadding(Stream& stream, const BlockedGeometry& g, float* blocked);

}  // namespace carafe
