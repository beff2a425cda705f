// Gradients and values in the memory of a device that the host cannot read or write.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "carafe/base/error.h"
#include "tests/support/exchange_values.h"

namespace carafe {
namespace {

// Memory without access rights, except inside the copy functions: the host's loads and stores end
// the process with a segmentation fault.
class GuardedDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "guarded memory"; }
  void* Allocate(size_t bytes) override {
    const size_t size = bytes > 0 ? bytes : 1;
    void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Ensure(memory != MAP_FAILED, "mmap failed");
    std::lock_guard lock(mutex_);
    sizes_[static_cast<char*>(memory)] = size;
    return memory;
  }
  void Free(void* memory) noexcept override {
    std::lock_guard lock(mutex_);
    const auto block = sizes_.find(static_cast<char*>(memory));
    munmap(memory, block->second);
    sizes_.erase(block);
  }
  void* CreateStream() override { return nullptr; }
  void DestroyStream(void*) noexcept override {}
  void Synchronize(void*) override {}
  void CopyToHost(void*, void* host, const void* device, size_t bytes) override {
    Access(device, bytes, [&] { std::memcpy(host, device, bytes); });
  }
  void CopyFromHost(void*, void* device, const void* host, size_t bytes) override {
    Access(device, bytes, [&] { std::memcpy(device, host, bytes); });
  }
  void Copy(void*, void* to, const void* from, size_t bytes) override {
    std::vector<char> host(bytes);
    CopyToHost(nullptr, host.data(), from, bytes);
    CopyFromHost(nullptr, to, host.data(), bytes);
  }
  void Zero(void*, void* memory, size_t bytes) override {
    Access(memory, bytes, [&] { std::memset(memory, 0, bytes); });
  }

 private:
  template <typename F>
  void Access(const void* memory, size_t bytes, const F& f) {
    if (bytes == 0) return;  // memcpy takes no null pointer, not even for nothing
    std::lock_guard lock(mutex_);
    auto block = sizes_.upper_bound(const_cast<char*>(static_cast<const char*>(memory)));
    Ensure(block != sizes_.begin(), "not memory of this device");
    --block;
    Ensure(mprotect(block->first, block->second, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    f();
    Ensure(mprotect(block->first, block->second, PROT_NONE) == 0, "mprotect failed");
  }

  std::mutex mutex_;  // also orders what several workers do in one block
  std::map<char*, size_t> sizes_;
};

TEST(DeviceMemory, IsStagedAndGivesTheBitsOfHostMemory) {
  GuardedDevice device;
  for (const char* exchange : {"allreduce", "server", "tree"})
    for (int ranks : {1, 2, 3})
      for (int workers : {1, 2})
        for (bool needs_all : {false, true}) {
          const ValuesCase host{
              .exchange = exchange, .ranks = ranks, .workers = workers, .needs_all = needs_all};
          ValuesCase guarded = host;
          guarded.devices = {&device};
          EXPECT_EQ(RunValues(guarded).values, RunValues(host).values)
              << exchange << " on " << ranks << " x " << workers;
        }
}

TEST(DeviceMemory, OfEachWorkerIsKeptUpToDate) {
  GuardedDevice first, second, third;
  for (const char* exchange : {"allreduce", "server", "tree"})
    for (int ranks : {1, 2})
      for (bool overlap : {false, true}) {
        const ValuesCase host{
            .exchange = exchange, .ranks = ranks, .workers = 3, .overlap = overlap};
        ValuesCase guarded = host;
        guarded.devices = {&first, &second, &third};
        EXPECT_EQ(RunValues(guarded).values, RunValues(host).values)
            << exchange << " on " << ranks << " ranks";
      }
}

TEST(DeviceMemory, NeedsAStagedExchange) {
  RunRanks(2, [](Group& group) {
    std::vector<ParamInfo<float>> params(1);
    params[0].memory = DeviceKind::kCuda;
    EXPECT_THROW(MakeExchange<float>("allreduce", {.group = group, .params = params}),
                 InternalError);
  });
}

// The test device itself.
TEST(DeviceMemoryDeathTest, TheHostCannotReadGuardedMemory) {
  GuardedDevice device;
  const auto* memory = static_cast<volatile float*>(device.Allocate(4));
  EXPECT_DEATH(static_cast<void>(*memory + 1), "");
  device.Free(const_cast<float*>(memory));
}

}  // namespace
}  // namespace carafe
