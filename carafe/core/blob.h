// An array of T with a value and a gradient half. Memory is taken on the stream's device at first
// touch, zeroed, and grows but never shrinks. Blobs may share storage (Split, Reshape, shared
// parameters, arenas); what is shared is the storage, so all sharers see it grow and see it change
// its memory format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "carafe/core/format.h"
#include "carafe/core/memory_pool.h"
#include "carafe/core/shape.h"
#include "carafe/core/stream.h"

namespace carafe {

// kShareable: processes of other ranks on this host may read it where it lies, if the system
// allows.
enum class BufferUse { kOwn, kShareable };

// A piece of device memory; not thread-safe.
class Buffer {
 public:
  explicit Buffer(BufferUse use = BufferUse::kOwn) : use_(use) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  // At least `bytes` bytes on the stream's device. Content survives growth; what is new is zero,
  // or anything (`zero` is false).
  void* Get(Stream& stream, size_t bytes, bool zero = true) {
    return memory_ != nullptr && bytes <= bytes_ ? memory_ : Grow(stream, bytes, zero);
  }
  size_t bytes() const { return bytes_; }
  const std::shared_ptr<MemoryPool>& pool() const { return pool_; }
  // From now on memory comes from the pool (null: from the device); what there was is gone.
  void UsePool(std::shared_ptr<MemoryPool> pool);
  // Gives the memory back to the pool, if it is from one and nobody outside looks at it; the next
  // Get allocates it again.
  void Release() noexcept;

 private:
  void* Grow(Stream& stream, size_t bytes, bool zero);
  void Free() noexcept;

  const BufferUse use_;
  Device* device_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  bool pooled_ = false;  // where the memory is from
  std::shared_ptr<MemoryPool> pool_;
};

// One half of one or more blobs: its memory, and the format in which the elements lie there now.
struct Storage {
  std::shared_ptr<Buffer> buffer = std::make_shared<Buffer>();
  int64_t offset = 0;   // in elements
  bool placed = false;  // in an arena, between others: stays plain
  Format format = Format::kPlain;
  BlockedGeometry geometry = {};  // of what lies there while the format is not plain
};

template <typename T>
class Blob {
 public:
  Blob() = default;
  explicit Blob(const Shape& shape) : shape_(shape) {}

  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.Count(); }
  void Reshape(const Shape& shape) { shape_ = shape; }

  // Plain C-order views on the stream's device, valid until the blob grows or a sharer asks for
  // another format. They are always right: elements that lie in another format are reordered first.
  const T* data(Stream& stream) const { return Plain(*data_, stream); }
  T* mutable_data(Stream& stream) { return Plain(*data_, stream); }
  const T* diff(Stream& stream) const { return Plain(*diff_, stream); }
  T* mutable_diff(Stream& stream) { return Plain(*diff_, stream); }

  // Views in a format that a layer is made for; it stays the storage's format until somebody asks
  // for another. Check Takes() first.
  const T* data(Stream& stream, Format format) const { return As(*data_, stream, format); }
  T* mutable_data(Stream& stream, Format format) { return As(*data_, stream, format); }
  const T* diff(Stream& stream, Format format) const { return As(*diff_, stream, format); }
  T* mutable_diff(Stream& stream, Format format) { return As(*diff_, stream, format); }
  // For those who write every element and read none: nothing is reordered, and the content is
  // anything, but for the padding channels of kBlocked8, which are zero.
  T* overwrite_data(Stream& stream, Format format = Format::kPlain) {
    return Overwrite(*data_, stream, format);
  }
  T* overwrite_diff(Stream& stream, Format format = Format::kPlain) {
    return Overwrite(*diff_, stream, format);
  }
  // kPlain always; kBlocked8 for float on the CPU, from three axes on, outside of arenas
  // (parameters lie in one).
  bool Takes(const Stream& stream, Format format) const;
  // What a view can be had in without a reorder; kPlain if the elements lie in a format of a sharer
  // with other channels.
  Format data_format() const { return FormatOf(*data_); }
  Format diff_format() const { return FormatOf(*diff_); }
  BlockedGeometry blocked_geometry() const { return BlockedGeometryOf(shape_); }

  // From now on this blob's half is the other's; shapes may differ, counts may not exceed the
  // other's.
  void ShareData(const Blob& other) { data_ = other.data_; }
  void ShareDiff(const Blob& other) { diff_ = other.diff_; }
  bool SharesDataWith(const Blob& other) const { return data_ == other.data_; }
  // The half becomes `count()` elements of an arena, from element `offset` on.
  void PlaceData(std::shared_ptr<Buffer> arena, int64_t offset) {
    data_ = std::make_shared<Storage>(Storage{std::move(arena), offset, /*placed=*/true});
  }
  void PlaceDiff(std::shared_ptr<Buffer> arena, int64_t offset) {
    diff_ = std::make_shared<Storage>(Storage{std::move(arena), offset, /*placed=*/true});
  }

  // For memory that is shared over time (net/memory_plan.h): where a half's memory comes from, and
  // that nobody will read what is in it any more. Blobs that share the half share its fate. A half
  // that was released reads as zeros. Nothing happens to what lies in an arena.
  void PoolData(const std::shared_ptr<MemoryPool>& pool) { Pool(*data_, pool); }
  void PoolDiff(const std::shared_ptr<MemoryPool>& pool) { Pool(*diff_, pool); }
  void ReleaseData() { data_->buffer->Release(); }
  void ReleaseDiff() { diff_->buffer->Release(); }

  // The data become those of `kept`, and this blob's are anything, as if it were new: a layer in
  // place that must see its input again keeps it without a copy. Not for memory that is looked at
  // from outside (Takes() no format but kPlain then).
  void MoveDataTo(Blob* kept) {
    Storage &from = *data_, &to = *kept->data_;
    to.buffer->UsePool(from.buffer->pool());
    std::swap(from.buffer, to.buffer);
    to.format = std::exchange(from.format, Format::kPlain);
    to.geometry = from.geometry;
    kept->shape_ = shape_;
  }

  // Copies for the host's eyes: tests, files, logs, Python.
  std::vector<T> DataToHost(Stream& stream) const;
  std::vector<T> DiffToHost(Stream& stream) const;
  void SetData(Stream& stream, std::span<const T> values);
  void SetDiff(Stream& stream, std::span<const T> values);
  void ZeroDiff(Stream& stream);

 private:
  T* Plain(Storage& half, Stream& stream) const {
    if (half.format != Format::kPlain) MakePlain(half, stream);
    return Get(half, stream, count());
  }
  T* Get(const Storage& half, Stream& stream, int64_t elements, bool zero = true) const {
    const size_t end = static_cast<size_t>(half.offset + elements) * sizeof(T);
    return static_cast<T*>(half.buffer->Get(stream, end, zero)) + half.offset;
  }
  static void Pool(Storage& half, const std::shared_ptr<MemoryPool>& pool) {
    if (!half.placed) half.buffer->UsePool(pool);
  }
  T* As(Storage& half, Stream& stream, Format format) const;
  T* Overwrite(Storage& half, Stream& stream, Format format) const;
  static void MakePlain(Storage& half, Stream& stream);
  Format FormatOf(const Storage& half) const;

  Shape shape_;
  std::shared_ptr<Storage> data_ = std::make_shared<Storage>();
  std::shared_ptr<Storage> diff_ = std::make_shared<Storage>();
};

template <typename T>
using Blobs = std::span<Blob<T>* const>;  // bottoms or tops of a layer; the net owns them

}  // namespace carafe
