#include "carafe/core/shareable_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "carafe/core/blob.h"

namespace carafe {
namespace {

TEST(ShareableMemory, IsZeroAndAlignedAndKnownWhileItIsThere) {
  constexpr size_t kBytes = 100000;
  auto* const memory = static_cast<char*>(AllocateShareable(kBytes));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(memory[i], 0);
  std::memset(memory, 1, kBytes);
  const auto found = FindShareable(memory + 10, kBytes - 10);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(FindShareable(memory, kBytes * 2).has_value());
  int other = 0;
  EXPECT_FALSE(FindShareable(&other, sizeof other).has_value());
  FreeShareable(memory);
  EXPECT_FALSE(FindShareable(memory, 1).has_value());
}

TEST(ShareableMemory, IsSeenByWhoeverMapsIt) {
  auto* const memory = static_cast<char*>(AllocateShareable(5000));
  ASSERT_NE(memory, nullptr);
  std::strcpy(memory, "gradients");
  const ShareableMemory piece = *FindShareable(memory, 5000);
  const int opened =
      open(fmt::format("/proc/{}/fd/{}", getpid(), piece.descriptor).c_str(), O_RDONLY);
  ASSERT_GE(opened, 0);
  const void* view = mmap(nullptr, piece.bytes, PROT_READ, MAP_SHARED, opened, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_STREQ(static_cast<const char*>(view) + (memory - piece.begin), "gradients");
  munmap(const_cast<void*>(view), piece.bytes);
  close(opened);
  FreeShareable(memory);
}

TEST(ShareableMemory, ABufferTakesItWhereItIsAskedTo) {
  Stream stream;
  Buffer plain, shareable(BufferUse::kShareable);
  EXPECT_FALSE(FindShareable(plain.Get(stream, 10000), 10000).has_value());
  void* const memory = shareable.Get(stream, 10000);
  EXPECT_TRUE(FindShareable(memory, 10000).has_value());
  static_cast<char*>(memory)[9999] = 7;
  void* const grown = shareable.Get(stream, 20000);
  EXPECT_EQ(static_cast<char*>(grown)[9999], 7);
  EXPECT_TRUE(FindShareable(grown, 20000).has_value());
}

}  // namespace
}  // namespace carafe
