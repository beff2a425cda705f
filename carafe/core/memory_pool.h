// Memory that many blobs take and give back while a net runs, so that what is dead makes room for
// what comes next. Not thread-safe: one net runs on one thread, and nets that share a pool do not
// run at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "carafe/core/stream.h"

namespace carafe {

// Which parts of a range of bytes are free; the bytes themselves lie elsewhere, or nowhere.
class FreeRanges {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  explicit FreeRanges(size_t bytes);
  // The size of the smallest free range of at least `bytes`; kNone if there is none.
  size_t SmallestFit(size_t bytes) const;
  // Takes the start of that range; returns its offset. There must be one.
  size_t Take(size_t bytes);
  void Give(size_t offset, size_t bytes);  // exactly what Take was asked for

 private:
  struct Range {
    size_t offset, bytes;
  };
  std::vector<Range> ranges_;  // by offset; no two touch
};

class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  // What a piece of `bytes` bytes takes up: whole cache lines, and one that a vector may read past
  // the end.
  static size_t Rounded(size_t bytes);
  // Makes it one piece of memory, of at least `bytes` bytes and as large as it ever was, if nobody
  // uses it now. Pages that are never touched cost nothing on a CPU.
  void Reserve(Stream& stream, size_t bytes);
  void* Take(Stream& stream, size_t bytes);  // the content is anything
  void Give(void* memory, size_t bytes) noexcept;

  size_t bytes() const { return bytes_; }    // held
  size_t in_use() const { return in_use_; }  // taken now
  size_t peak() const { return peak_; }      // the most that was taken at once
  // Less than that is not worth the trouble: buffers get it elsewhere.
  size_t smallest() const { return poison_ ? 0 : kSmallest; }
  // For tests: what is given back becomes not-a-number, so that a reader who comes too late shows;
  // and nothing is too small.
  void set_poison(bool poison) { poison_ = poison; }

 private:
  static constexpr size_t kSmallest = size_t{16} << 10;
  struct Segment {
    Device* device;
    char* memory;
    size_t bytes;
    FreeRanges free;
  };
  void AddSegment(Device& device, size_t bytes);
  void DropSegments() noexcept;

  std::vector<Segment> segments_;  // one, unless more was needed than Reserve was told
  size_t bytes_ = 0, in_use_ = 0, peak_ = 0;
  bool poison_ = false;
};

}  // namespace carafe
