#include "carafe/core/blob.h"

#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/core/pinned.h"

namespace carafe {

Buffer::~Buffer() { Free(); }

void* Buffer::Grow(Stream& stream, size_t bytes, bool zero) {
  Device& device = stream.device();
  Ensure(device_ == nullptr || device_ == &device, "a blob was used on two devices");
  const bool from_pool = pool_ != nullptr && bytes >= pool_->smallest() && bytes > 0;
  const auto allocate = [&](size_t size) {
    return use_ == BufferUse::kShareable ? device.AllocateShareable(size) : device.Allocate(size);
  };
  void* const grown = from_pool ? pool_->Take(stream, bytes) : allocate(bytes == 0 ? 1 : bytes);
  if (memory_ != nullptr) {
    device.Copy(stream.native(), grown, memory_, bytes_);
    stream.Synchronize();
  }
  if (from_pool && zero) {
    device.Zero(stream.native(), static_cast<char*>(grown) + bytes_, bytes - bytes_);
  }
  Free();
  device_ = &device;
  memory_ = grown;
  bytes_ = bytes;
  pooled_ = from_pool;
  return memory_;
}

void Buffer::Free() noexcept {
  if (memory_ == nullptr) return;
  if (pooled_) {
    pool_->Give(memory_, bytes_);
  } else {
    FreeUnpinned(*device_, memory_, bytes_);
  }
  memory_ = nullptr;
  bytes_ = 0;
  pooled_ = false;
}

void Buffer::UsePool(std::shared_ptr<MemoryPool> pool) {
  if (pool_ == pool) return;
  Free();
  pool_ = std::move(pool);
}

void Buffer::Release() noexcept {
  if (pooled_ && !HasPin(memory_, bytes_)) Free();
}

namespace {

// Somebody outside looks at the memory, and knows the plain format only.
bool IsPinned(const Storage& half, const Stream& stream) {
  const size_t bytes = half.buffer->bytes();
  // Memory that is there is given out without a look at the stream.
  return bytes > 0 && HasPin(half.buffer->Get(const_cast<Stream&>(stream), bytes), bytes);
}

// A layer that chose a format before somebody looked gets other memory: what is looked at is never
// reordered.
void LeavePinned(Storage& half, Stream& stream) {
  if (!IsPinned(half, stream)) return;
  const size_t bytes = half.buffer->bytes();
  auto fresh = std::make_shared<Buffer>();
  stream.Copy(static_cast<char*>(fresh->Get(stream, bytes)),
              static_cast<const char*>(half.buffer->Get(stream, bytes)), bytes);
  half.buffer = std::move(fresh);
}

template <typename T>
bool CanBeBlocked(const Shape& shape, const Storage& data, const Storage& diff,
                  const Stream& stream) {
  constexpr int64_t kMost = int64_t{1}
                            << 56;  // elements; with padding still within 64 bits of bytes
  return std::is_same_v<T, float> && stream.on_cpu() && HasBlockedGeometry(shape) &&
         shape.Count() <= kMost && !data.placed && !diff.placed;
}

}  // namespace

template <typename T>
bool Blob<T>::Takes(const Stream& stream, Format format) const {
  if (format == Format::kPlain) return true;
  return CanBeBlocked<T>(shape_, *data_, *diff_, stream) && !IsPinned(*data_, stream) &&
         !IsPinned(*diff_, stream);
}

template <typename T>
Format Blob<T>::FormatOf(const Storage& half) const {
  if (half.format == Format::kPlain || !HasBlockedGeometry(shape_)) return Format::kPlain;
  return half.geometry == blocked_geometry() ? half.format : Format::kPlain;
}

template <typename T>
T* Blob<T>::As(Storage& half, Stream& stream, Format format) const {
  if (format == Format::kPlain) return Plain(half, stream);
  Ensure(CanBeBlocked<T>(shape_, *data_, *diff_, stream),
         "a blob cannot lie in the format that a layer asked for");
  LeavePinned(half, stream);
  const BlockedGeometry g = blocked_geometry();
  if (half.format != Format::kPlain && half.geometry != g) MakePlain(half, stream);
  T* values = Get(half, stream, g.padded_count());
  if constexpr (std::is_same_v<T, float>) {
    if (half.format == Format::kPlain) PlainToBlocked(stream, g, values);
  }
  half.format = format;
  half.geometry = g;
  return values;
}

template <typename T>
T* Blob<T>::Overwrite(Storage& half, Stream& stream, Format format) const {
  if (format == Format::kPlain) {
    half.format = Format::kPlain;
    return Get(half, stream, count(), /*zero=*/false);
  }
  Ensure(CanBeBlocked<T>(shape_, *data_, *diff_, stream),
         "a blob cannot lie in the format that a layer asked for");
  LeavePinned(half, stream);
  const BlockedGeometry g = blocked_geometry();
  const bool fresh = half.buffer->bytes() == 0;
  T* values = Get(half, stream, g.padded_count(), /*zero=*/false);
  if constexpr (std::is_same_v<T, float>) {
    if (fresh || half.format != format || half.geometry != g) ZeroPadding(stream, g, values);
  }
  half.format = format;
  half.geometry = g;
  return values;
}

template <typename T>
void Blob<T>::MakePlain(Storage& half, Stream& stream) {
  if constexpr (std::is_same_v<T, float>) {
    const size_t bytes = static_cast<size_t>(half.geometry.padded_count()) * sizeof(T);
    BlockedToPlain(stream, half.geometry, static_cast<T*>(half.buffer->Get(stream, bytes)));
  }
  half.format = Format::kPlain;
}

template <typename T>
std::vector<T> Blob<T>::DataToHost(Stream& stream) const {
  std::vector<T> values(static_cast<size_t>(count()));
  stream.CopyToHost(std::span<T>(values), data(stream));
  return values;
}

template <typename T>
std::vector<T> Blob<T>::DiffToHost(Stream& stream) const {
  std::vector<T> values(static_cast<size_t>(count()));
  stream.CopyToHost(std::span<T>(values), diff(stream));
  return values;
}

template <typename T>
void Blob<T>::SetData(Stream& stream, std::span<const T> values) {
  Ensure(static_cast<int64_t>(values.size()) == count(), "value count differs from the blob's");
  stream.CopyFromHost(overwrite_data(stream), values);
}

template <typename T>
void Blob<T>::SetDiff(Stream& stream, std::span<const T> values) {
  Ensure(static_cast<int64_t>(values.size()) == count(), "value count differs from the blob's");
  stream.CopyFromHost(overwrite_diff(stream), values);
}

template <typename T>
void Blob<T>::ZeroDiff(Stream& stream) {
  stream.Zero(overwrite_diff(stream), static_cast<size_t>(count()));
}

template class Blob<float>;
template class Blob<double>;
// Blobs of indices are plain, but their views refer to this.
template void Blob<int>::MakePlain(Storage&, Stream&);
template void Blob<uint8_t>::MakePlain(Storage&, Stream&);

}  // namespace carafe
