// The format is that of LMDB 0.9 (data version 1), in the machine's byte order:
//   page    8 its number, 2 unused, 2 flags, 2 lower, 2 upper (or 4: pages of a long value); then
//           2 each: where its nodes lie, from 16 to `lower`; the nodes lie from `upper` to the end
//   node    4 length of the value, 2 flags, 2 length of the key, the key, the value. In a branch
//           the first 6 bytes are the number of a page; in a leaf a long value is a page's number
//   header  in pages 0 and 1: 4 magic, 4 version, 8 address, 8 size of the map, two trees (free
//           pages, records) of 48 bytes, 8 the last page, 8 the transaction
//   tree    4 page size (of the first tree), 2 flags, 2 depth, 3 * 8 pages, 8 records, 8 the root
#include "carafe/data/lmdb_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr uint64_t kPageHeader = 16, kNodeHeader = 8, kMagicAt = 16, kTreesAt = 40, kTreeBytes = 48;
constexpr uint64_t kHeaderBytes = kTreesAt + 2 * kTreeBytes + 16;
constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr unsigned kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8, kKinds = 0x6F;
constexpr unsigned kLongValue = 1, kDuplicates = 4;  // of a node; kDuplicates of a tree, too
constexpr int kMaxDepth = 32;
constexpr uint64_t kMapAlignment = 4096;  // pages that are larger need not lie at their multiples
constexpr uint64_t kNoPage = ~uint64_t{0};

template <typename T>
T Get(const unsigned char* bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof value);
  return value;
}

struct Nodes {
  uint64_t count = 0;
  const unsigned char* page = nullptr;
  uint64_t at(uint64_t i) const { return Get<uint16_t>(page, kPageHeader + 2 * i); }
};

}  // namespace

LmdbPages::LmdbPages(const std::string& path, const std::string& file) : path_(path) {
  file_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
}

void LmdbPages::ReadHeaders() {
  Header first, second;
  if (file_ < 0 || !ReadHeader(0, &first)) return;
  if (!std::has_single_bit(first.page_size) || first.page_size < 512 || first.page_size > 65536)
    Fail(0, fmt::format("has pages of {} bytes", first.page_size));
  if (!ReadHeader(first.page_size, &second)) return;
  if (second.page_size != first.page_size)
    Fail(1, fmt::format("has pages of {} bytes, page 0 of {}", second.page_size, first.page_size));
  header_ = first.transaction < second.transaction ? second : first;
  known_ = true;
}

LmdbPages::~LmdbPages() {
  if (file_ >= 0) close(file_);
}

bool LmdbPages::ReadHeader(uint64_t offset, Header* header) const {
  std::array<unsigned char, kHeaderBytes> bytes;
  if (pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(bytes.size()))
    return false;
  const unsigned char* at = bytes.data();
  if ((Get<uint16_t>(at, 10) & kMeta) == 0 || Get<uint32_t>(at, kMagicAt) != kMagic ||
      Get<uint32_t>(at, kMagicAt + 4) != kVersion)
    return false;
  const unsigned char* records = at + kTreesAt + kTreeBytes;
  header->page_size = Get<uint32_t>(at, kTreesAt);
  header->flags = Get<uint16_t>(records, 4);
  header->depth = Get<uint16_t>(records, 6);
  header->entries = Get<uint64_t>(records, 32);
  header->root = Get<uint64_t>(records, 40);
  header->last_page = Get<uint64_t>(at, kTreesAt + 2 * kTreeBytes);
  header->transaction = Get<uint64_t>(at, kTreesAt + 2 * kTreeBytes + 8);
  return true;
}

void LmdbPages::Fail(uint64_t page, const std::string& what) const {
  throw DataError(path_, -1, fmt::format("page {} of data.mdb {}", page, what),
                  "the database is damaged; copy or make it again");
}

uint64_t LmdbPages::Check(bool all) const {
  if (!known_ || header_.root == kNoPage) return 0;  // LMDB's error, or an empty database
  if ((header_.flags & kDuplicates) != 0)
    Fail(0, "says that keys may have several values, which Caffe does not write");
  if (header_.depth < 1 || header_.depth > kMaxDepth)
    Fail(0, fmt::format("gives the tree {} levels", header_.depth));
  Counts counts;
  CheckPage(header_.root, 1, all, &counts);
  return counts.records;
}

void LmdbPages::CheckPage(uint64_t number, int level, bool all, Counts* counts) const {
  if (number < 2 || number > header_.last_page)
    Fail(number, fmt::format("is named, but there are {}", header_.last_page + 1));
  if (++counts->pages > header_.last_page) Fail(number, "is named more than once");
  std::vector<unsigned char> page(header_.page_size);
  if (pread(file_, page.data(), page.size(), static_cast<off_t>(number * header_.page_size)) !=
      static_cast<ssize_t>(page.size()))
    Fail(number, "cannot be read");
  const bool leaf = level == header_.depth;
  const uint64_t stored = Get<uint64_t>(page.data(), 0);
  if (stored != number) Fail(number, fmt::format("has the number {}", stored));
  const unsigned flags = Get<uint16_t>(page.data(), 10);
  if ((flags & kKinds) != (leaf ? kLeaf : kBranch))
    Fail(number, fmt::format("is no {} (flags {:#x})", leaf ? "leaf" : "branch", flags));
  const uint64_t lower = Get<uint16_t>(page.data(), 12), upper = Get<uint16_t>(page.data(), 14);
  if (lower < kPageHeader || lower % 2 != 0 || upper < lower || upper > header_.page_size)
    Fail(number, fmt::format("has its space between {} and {}", lower, upper));
  if (lower < kPageHeader + (leaf ? 2 : 4)) Fail(number, "has too few nodes");
  if (leaf) {
    counts->records += (lower - kPageHeader) / 2;
    return CheckLeaf(number, page);
  }
  const std::vector<uint64_t> children = Children(number, page);
  for (const uint64_t child : children) {
    CheckPage(child, level + 1, all, counts);
    if (!all) return;
  }
}

std::vector<uint64_t> LmdbPages::Children(uint64_t number,
                                          const std::vector<unsigned char>& page) const {
  const Nodes nodes{(Get<uint16_t>(page.data(), 12) - kPageHeader) / 2, page.data()};
  const uint64_t upper = Get<uint16_t>(page.data(), 14);
  std::vector<uint64_t> children;
  for (uint64_t i = 0; i < nodes.count; ++i) {
    const uint64_t at = nodes.at(i);
    if (at < upper || at + kNodeHeader > page.size() ||
        at + kNodeHeader + Get<uint16_t>(page.data(), at + 6) > page.size())
      Fail(number, fmt::format("has node {} at {}", i, at));
    children.push_back(Get<uint32_t>(page.data(), at) | uint64_t{Get<uint16_t>(page.data(), at + 4)}
                                                            << 32);
  }
  return children;
}

void LmdbPages::CheckLeaf(uint64_t number, const std::vector<unsigned char>& page) const {
  const Nodes nodes{(Get<uint16_t>(page.data(), 12) - kPageHeader) / 2, page.data()};
  const uint64_t upper = Get<uint16_t>(page.data(), 14);
  for (uint64_t i = 0; i < nodes.count; ++i) {
    const uint64_t at = nodes.at(i);
    if (at < upper || at + kNodeHeader > page.size())
      Fail(number, fmt::format("has node {} at {}", i, at));
    const uint64_t length = Get<uint32_t>(page.data(), at);
    const unsigned flags = Get<uint16_t>(page.data(), at + 4);
    const uint64_t value = at + kNodeHeader + Get<uint16_t>(page.data(), at + 6);
    const bool is_long = (flags & kLongValue) != 0;
    if ((flags & kDuplicates) != 0 || value + (is_long ? 8 : length) > page.size())
      Fail(number, fmt::format("has node {} with a value of {} bytes", i, length));
  }
}

std::string LmdbPages::CheckValue(std::string_view value) const {
  const auto address = reinterpret_cast<uintptr_t>(value.data());
  if (!known_ || value.empty() || header_.page_size > kMapAlignment ||
      address % header_.page_size != kPageHeader)
    return "";
  const auto* page = reinterpret_cast<const unsigned char*>(value.data()) - kPageHeader;
  const unsigned flags = Get<uint16_t>(page, 10);
  const uint64_t pages = (kPageHeader + value.size() + header_.page_size - 1) / header_.page_size;
  if ((flags & kKinds) == kOverflow && Get<uint32_t>(page, 12) >= pages) return "";
  return fmt::format("lies on a page of another kind (flags {:#x}, {} pages instead of {})", flags,
                     Get<uint32_t>(page, 12), pages);
}

}  // namespace carafe
