#include "carafe/core/pinned.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "carafe/core/blob.h"

namespace carafe {
namespace {

// A device that counts what it frees.
class CountingDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "counting"; }
  void* Allocate(size_t bytes) override { return std::calloc(bytes, 1); }
  void Free(void* memory) noexcept override {
    ++freed;
    std::free(memory);
  }
  void* CreateStream() override { return nullptr; }
  void DestroyStream(void*) noexcept override {}
  void Synchronize(void*) override {}
  void CopyToHost(void* s, void* to, const void* from, size_t n) override { Copy(s, to, from, n); }
  void CopyFromHost(void* s, void* to, const void* from, size_t n) override {
    Copy(s, to, from, n);
  }
  void Copy(void*, void* to, const void* from, size_t n) override { __builtin_memcpy(to, from, n); }
  void Zero(void*, void* memory, size_t n) override { __builtin_memset(memory, 0, n); }

  int freed = 0;
};

TEST(Pinned, MemoryWithoutPinsIsFreedAtOnce) {
  CountingDevice device;
  FreeUnpinned(device, device.Allocate(16), 16);
  EXPECT_EQ(device.freed, 1);
}

TEST(Pinned, MemoryIsFreedWithItsLastPin) {
  CountingDevice device;
  char* memory = static_cast<char*>(device.Allocate(64));
  auto first = std::make_unique<Pin>(memory);
  auto inside = std::make_unique<Pin>(memory + 60);
  auto again = std::make_unique<Pin>(memory + 60);
  FreeUnpinned(device, memory, 64);
  EXPECT_EQ(device.freed, 0);
  inside.reset();
  first.reset();
  EXPECT_EQ(device.freed, 0);
  memory[60] = 1;  // still ours to write
  again.reset();
  EXPECT_EQ(device.freed, 1);
}

TEST(Pinned, PinsOfOtherMemoryDoNotCount) {
  CountingDevice device;
  char* memory = static_cast<char*>(device.Allocate(64));
  const Pin behind(memory + 32);
  FreeUnpinned(device, memory + 0, 32);  // as if two pieces lay side by side
  EXPECT_EQ(device.freed, 1);
}

TEST(Pinned, ABlobThatGrowsLeavesPinnedMemoryAlone) {
  CountingDevice device;
  Stream stream(device);
  Blob<float> blob(Shape{2});
  float* old = blob.mutable_data(stream);
  old[0] = 5;
  auto pin = std::make_unique<Pin>(old);
  blob.Reshape(Shape{2000});
  EXPECT_NE(blob.mutable_data(stream), old);
  EXPECT_EQ(device.freed, 0);
  EXPECT_EQ(old[0], 5);
  pin.reset();
  EXPECT_EQ(device.freed, 1);
}

TEST(Pinned, ABlobThatIsLookedAtStaysPlain) {
  Stream stream;
  Blob<float> blob(Shape{1, 8, 2});
  float* data = blob.mutable_data(stream);
  EXPECT_TRUE(blob.Takes(stream, Format::kBlocked8));
  {
    const Pin pin(data + 3);
    EXPECT_FALSE(blob.Takes(stream, Format::kBlocked8));
    EXPECT_TRUE(blob.Takes(stream, Format::kPlain));
  }
  EXPECT_TRUE(blob.Takes(stream, Format::kBlocked8));
}

TEST(Pinned, ABlobThatIsReorderedNonethelessMovesAway) {
  Stream stream;
  Blob<float> blob(Shape{1, 8, 2});
  float* seen = blob.mutable_data(stream);
  for (int i = 0; i < 16; ++i) seen[i] = static_cast<float>(i);
  const Pin pin(seen);
  EXPECT_NE(blob.data(stream, Format::kBlocked8), seen);
  EXPECT_EQ(blob.data(stream)[5], 5);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(seen[i], i);
}

}  // namespace
}  // namespace carafe
