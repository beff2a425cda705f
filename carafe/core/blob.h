// An array of T with a value and a gradient half. Memory is taken on the stream's device at first
// touch, zeroed, and grows but never shrinks. Blobs may share storage (Split, Reshape, shared
// parameters, arenas); what is shared is the buffer, so all sharers see it grow.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "carafe/core/shape.h"
#include "carafe/core/stream.h"

namespace carafe {

// A piece of device memory; not thread-safe.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  // At least `bytes` bytes on the stream's device. Content survives growth.
  void* Get(Stream& stream, size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

template <typename T>
class Blob {
 public:
  Blob() = default;
  explicit Blob(const Shape& shape) : shape_(shape) {}

  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.Count(); }
  void Reshape(const Shape& shape) { shape_ = shape; }

  // Plain C-order views on the stream's device, valid until the blob grows.
  const T* data(Stream& stream) const { return Get(data_, stream); }
  T* mutable_data(Stream& stream) { return Get(data_, stream); }
  const T* diff(Stream& stream) const { return Get(diff_, stream); }
  T* mutable_diff(Stream& stream) { return Get(diff_, stream); }

  // From now on this blob's half is the other's; shapes may differ, counts may not exceed the
  // other's.
  void ShareData(const Blob& other) { data_ = other.data_; }
  void ShareDiff(const Blob& other) { diff_ = other.diff_; }
  bool SharesDataWith(const Blob& other) const { return data_.buffer == other.data_.buffer; }
  // The half becomes `count()` elements of an arena, from element `offset` on.
  void PlaceData(std::shared_ptr<Buffer> arena, int64_t offset) { data_ = {arena, offset}; }
  void PlaceDiff(std::shared_ptr<Buffer> arena, int64_t offset) { diff_ = {arena, offset}; }

  // Copies for the host's eyes: tests, files, logs, Python.
  std::vector<T> DataToHost(Stream& stream) const;
  std::vector<T> DiffToHost(Stream& stream) const;
  void SetData(Stream& stream, std::span<const T> values);
  void SetDiff(Stream& stream, std::span<const T> values);
  void ZeroDiff(Stream& stream);

 private:
  struct Half {
    std::shared_ptr<Buffer> buffer = std::make_shared<Buffer>();
    int64_t offset = 0;  // in elements
  };
  T* Get(const Half& half, Stream& stream) const {
    const size_t end = static_cast<size_t>(half.offset + count()) * sizeof(T);
    return static_cast<T*>(half.buffer->Get(stream, end)) + half.offset;
  }
  Shape shape_;
  Half data_, diff_;
};

template <typename T>
using Blobs = std::span<Blob<T>* const>;  // bottoms or tops of a layer; the net owns them

}  // namespace carafe
