#include "carafe/core/blob.h"

#include "carafe/base/error.h"
#include "carafe/core/pinned.h"

namespace carafe {

Buffer::~Buffer() {
  if (device_ != nullptr) FreeUnpinned(*device_, memory_, bytes_);
}

void* Buffer::Get(Stream& stream, size_t bytes) {
  if (memory_ != nullptr && bytes <= bytes_) return memory_;
  Device& device = stream.device();
  Ensure(device_ == nullptr || device_ == &device, "a blob was used on two devices");
  void* grown = device.Allocate(bytes == 0 ? 1 : bytes);
  if (memory_ != nullptr) {
    device.Copy(stream.native(), grown, memory_, bytes_);
    stream.Synchronize();
    FreeUnpinned(device, memory_, bytes_);
  }
  device_ = &device;
  memory_ = grown;
  bytes_ = bytes;
  return memory_;
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
  stream.CopyFromHost(mutable_data(stream), values);
}

template <typename T>
void Blob<T>::SetDiff(Stream& stream, std::span<const T> values) {
  Ensure(static_cast<int64_t>(values.size()) == count(), "value count differs from the blob's");
  stream.CopyFromHost(mutable_diff(stream), values);
}

template <typename T>
void Blob<T>::ZeroDiff(Stream& stream) {
  stream.Zero(mutable_diff(stream), static_cast<size_t>(count()));
}

template class Blob<float>;
template class Blob<double>;

}  // namespace carafe
