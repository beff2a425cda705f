// Host memory that a GPU copies from and to by itself, while the host does other work.
#pragma once

#include <cstddef>
#include <utility>

namespace carafe {

// Zeroed, 64-byte aligned. Plain memory where there is no GPU. Throws DataError if there is not
// enough.
void* AllocatePageLocked(size_t bytes);
void FreePageLocked(void* memory) noexcept;

// An array in such memory.
template <typename T>
class PageLocked {
 public:
  explicit PageLocked(size_t count)
      : data_(static_cast<T*>(AllocatePageLocked(count * sizeof(T)))) {}
  PageLocked(PageLocked&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PageLocked& operator=(PageLocked&&) = delete;
  ~PageLocked() {
    if (data_ != nullptr) FreePageLocked(data_);
  }
  T* data() const { return data_; }

 private:
  T* data_;
};

}  // namespace carafe
