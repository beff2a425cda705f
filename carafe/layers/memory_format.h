// In which memory format a layer works: that of its bottoms, so that a chain of layers which all
// know the blocked format needs no reorder. Backward works in the format that the bottom's data lie
// in, and so hands down its gradient in the format in which the layer below has written its top.
#pragma once

#include <type_traits>

#include "carafe/core/blob.h"

namespace carafe {

// The format of `bottom`'s data if all of these blobs can lie in it, else kPlain.
template <typename T>
Format CommonFormat(const Stream& stream, const Blob<T>& bottom, const Blob<T>& top) {
  const Format format = bottom.data_format();
  return bottom.Takes(stream, format) && top.Takes(stream, format) ? format : Format::kPlain;
}

// kBlocked8 if the data of at least one of the blobs lie so, and all of them can.
template <typename T>
Format CommonFormat(const Stream& stream, Blobs<T> blobs) {
  bool any = false;
  for (const Blob<T>* blob : blobs) {
    if (!blob->Takes(stream, Format::kBlocked8)) return Format::kPlain;
    any = any || blob->data_format() == Format::kBlocked8;
  }
  return any ? Format::kBlocked8 : Format::kPlain;
}

// Elements in memory, those that pad the channels included: what a kernel that treats all elements
// alike runs over.
template <typename T>
int64_t StoredCount(const Blob<T>& blob, Format format) {
  return format == Format::kPlain ? blob.count() : blob.blocked_geometry().padded_count();
}

// After a kernel that does not map 0 to 0: the channels that pad become 0 again.
template <typename T>
void RestorePadding(Stream& stream, const Blob<T>& blob, Format format, T* values) {
  if constexpr (std::is_same_v<T, float>) {
    if (format == Format::kBlocked8) ZeroPadding(stream, blob.blocked_geometry(), values);
  }
}

// copy = values, which lie in this format and have the shape of `like`.
template <typename T>
void KeepCopy(Stream& stream, const Blob<T>& like, Format format, const T* values, Blob<T>* copy) {
  copy->Reshape(like.shape());
  stream.Copy(copy->overwrite_data(stream, format), values,
              static_cast<size_t>(StoredCount(like, format)));
}

}  // namespace carafe
