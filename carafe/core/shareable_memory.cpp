#include "carafe/core/shareable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace carafe {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
// Where a piece begins in its first page differs from process to process: adding what lies at the
// same place of a page in two pieces is slow, for a load seems to need what a store just before it
// writes.
constexpr size_t kPlaces = 8;

size_t Shift() { return kLine + static_cast<size_t>(getpid()) % kPlaces * (kPage / kPlaces); }

struct Piece {
  ShareableMemory whole;
  void* given;  // to the caller: where it begins for him
};

struct Pieces {
  std::mutex mutex;  // guards all, and `count` for writing
  std::vector<Piece> all;
  uint64_t last_id = 0;
  std::atomic<size_t> count{0};  // most programs have none, and ask for nothing
};

// Never destroyed: memory may be freed while the process ends.
Pieces& AllPieces() {
  static Pieces& pieces = *new Pieces;
  return pieces;
}

}  // namespace

void* AllocateShareable(size_t bytes) noexcept {
  const size_t all = (Shift() + bytes + kLine + kPage - 1) / kPage * kPage;
  if (all < bytes) return nullptr;
  const int descriptor = memfd_create("carafe-gradients", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* mapped = MAP_FAILED;
  if (ftruncate(descriptor, static_cast<off_t>(all)) == 0)
    mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  madvise(mapped, all, MADV_HUGEPAGE);  // a wish that many systems do not grant
  Pieces& pieces = AllPieces();
  const std::lock_guard lock(pieces.mutex);
  char* const begin = static_cast<char*>(mapped);
  pieces.all.push_back({{++pieces.last_id, descriptor, begin, all}, begin + Shift()});
  ++pieces.count;
  return pieces.all.back().given;
}

void FreeShareable(void* memory) noexcept {
  Pieces& pieces = AllPieces();
  const std::lock_guard lock(pieces.mutex);
  const auto piece = std::ranges::find(pieces.all, memory, &Piece::given);
  if (piece == pieces.all.end()) return;
  munmap(piece->whole.begin, piece->whole.bytes);
  close(piece->whole.descriptor);
  pieces.all.erase(piece);
  --pieces.count;
}

std::optional<ShareableMemory> FindShareable(const void* memory, size_t bytes) {
  Pieces& pieces = AllPieces();
  if (pieces.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard lock(pieces.mutex);
  const char* const begin = static_cast<const char*>(memory);
  for (const Piece& piece : pieces.all) {
    const ShareableMemory& whole = piece.whole;
    if (begin >= whole.begin && begin + bytes <= whole.begin + whole.bytes) return whole;
  }
  return std::nullopt;
}

}  // namespace carafe
