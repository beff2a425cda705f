#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "carafe/base/error.h"
#include "carafe/core/device.h"

namespace carafe {
namespace {

size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(CpuDevice, GivesAlignedZeros) {
  Device& cpu = CpuDevice();
  for (int round = 0; round < 2; ++round) {  // the second time some of it was used before
    for (const size_t bytes :
         {size_t{1}, size_t{63}, size_t{4096}, size_t{2} << 20, size_t{9} << 20}) {
      auto* memory = static_cast<unsigned char*>(cpu.Allocate(bytes));
      const size_t alignment = bytes >= size_t{2} << 20 ? size_t{2} << 20 : 64;  // a huge page
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u) << bytes;
      EXPECT_TRUE(std::all_of(memory, memory + bytes, [](unsigned char c) { return c == 0; }));
      std::fill(memory, memory + bytes, static_cast<unsigned char>(7));
      cpu.Free(memory);
    }
  }
}

TEST(CpuDevice, TakesNoPagesForWhatNobodyTouches) {
  constexpr size_t kBytes = size_t{256} << 20;
  const size_t before = ResidentBytes();
  void* memory = CpuDevice().Allocate(kBytes);
  const size_t after = ResidentBytes();
  CpuDevice().Free(memory);
  EXPECT_LT(after, before + kBytes / 2);
}

TEST(CpuDevice, TakesNothingForNothing) {
  EXPECT_EQ(CpuDevice().Allocate(0), nullptr);
  CpuDevice().Free(nullptr);
}

TEST(CpuDevice, RefusesMoreThanThereIs) { EXPECT_THROW(CpuDevice().Allocate(SIZE_MAX), DataError); }

}  // namespace
}  // namespace carafe
