#include "tests/vgpu/memory.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "tests/vgpu/report.h"
#include "tests/vgpu/scheduler.h"

namespace carafe::vgpu {
namespace {

// For the signal handler.
std::array<std::atomic<DeviceMemory*>, 64> all_memory{};

void OnFault(int signal, siginfo_t* info, void*) {
  for (const auto& entry : all_memory) {
    const DeviceMemory* memory = entry.load();
    if (memory == nullptr || !memory->Contains(info->si_addr)) continue;
    const char* running = RunningOperation();
    const std::string who = running == nullptr
                                ? "host code reads or writes device memory"
                                : fmt::format(
                                      "{} reads or writes memory of another device or "
                                      "beyond its own",
                                      running);
    Die(fmt::format("{}: {}", who, memory->Describe(info->si_addr)));
  }
  ::signal(signal, SIG_DFL);  // not ours: the access is repeated, and ends the process
}

void InstallHandler() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  if (!installed) Die("the handler of segmentation faults cannot be installed");
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool AllPoison(const char* begin, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (static_cast<unsigned char>(begin[i]) != kPoison) return false;
  }
  return true;
}

}  // namespace

DeviceMemory::DeviceMemory(int device, size_t limit) : device_(device), limit_(limit) {
  InstallHandler();
  void* base =
      mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) Die("no addresses are left for a device's memory");
  base_ = static_cast<char*>(base);
  all_memory.at(static_cast<size_t>(device)) = this;
}

// The start of a free range of at least `bytes`, else new memory; kAddresses if there is none.
size_t DeviceMemory::TakeFree(size_t bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, size] = *range;
    if (size < bytes) continue;
    free_.erase(range);
    if (size > bytes) free_[offset + bytes] = size - bytes;
    return offset;
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t offset = end_, added = RoundUp(bytes, page);
  if (offset + added > kAddresses) return kAddresses;
  end_ += added;
  if (mprotect(base_ + offset, added, PROT_READ | PROT_WRITE) != 0) return kAddresses;
  std::memset(base_ + offset, kPoison, added);
  mprotect(base_ + offset, added, PROT_NONE);
  if (added > bytes) free_[offset + bytes] = added - bytes;
  return offset;
}

void* DeviceMemory::Allocate(size_t bytes) {
  const size_t whole = RoundUp(bytes, kAlign) + kGuard;
  if (bytes > limit_ || used_ + bytes > limit_) return nullptr;
  const size_t offset = TakeFree(whole);
  if (offset == kAddresses) return nullptr;
  {
    const Window window(*this);
    if (!AllPoison(base_ + offset, whole)) {
      Die(fmt::format("memory was written after it was freed, or beyond an allocation: {}",
                      Describe(base_ + offset)));
    }
  }
  live_[offset] = bytes;
  used_ += bytes;
  return base_ + offset;
}

void DeviceMemory::Free(void* memory) {
  const auto found = Contains(memory)
                         ? live_.find(static_cast<size_t>(static_cast<char*>(memory) - base_))
                         : live_.end();
  if (found == live_.end()) Die("cudaFree of what is no allocation");
  const auto [offset, bytes] = *found;
  const size_t whole = RoundUp(bytes, kAlign) + kGuard;
  {
    const Window window(*this);
    if (!AllPoison(base_ + offset + bytes, whole - bytes)) {
      Die(fmt::format("memory was written behind an allocation of {} bytes", bytes));
    }
    std::memset(base_ + offset, kPoison, whole);
  }
  live_.erase(found);
  used_ -= bytes;
  auto range = free_.emplace(offset, whole).first;
  const auto next = std::next(range);
  if (next != free_.end() && next->first == offset + whole) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto before = std::prev(range);
  if (before->first + before->second == offset) {
    before->second += range->second;
    free_.erase(range);
  }
}

bool DeviceMemory::Contains(const void* address) const {
  return address >= base_ && address < base_ + kAddresses;
}

void DeviceMemory::CheckRange(const void* memory, size_t bytes, const char* what) const {
  if (Contains(memory)) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(memory) - base_);
    const auto next = live_.upper_bound(offset);
    if (next != live_.begin()) {
      const auto [begin, size] = *std::prev(next);
      if (offset + bytes <= begin + size) return;
    }
  }
  Die(fmt::format("{}: {} bytes from {} on do not lie in one allocation", what, bytes,
                  Describe(memory)));
}

std::string DeviceMemory::Describe(const void* address) const {
  if (!Contains(address)) return fmt::format("{}, no memory of device {}", address, device_);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - base_);
  const auto next = live_.upper_bound(offset);
  if (next != live_.begin()) {
    const auto [begin, bytes] = *std::prev(next);
    if (offset < begin + bytes) {
      return fmt::format("byte {} of an allocation of {} bytes on device {}", offset - begin, bytes,
                         device_);
    }
  }
  return fmt::format("free memory of device {}", device_);
}

void DeviceMemory::SetAccess(int rights) {
  if (end_ > 0 && mprotect(base_, end_, rights) != 0) Die("mprotect failed");
}

DeviceMemory::Window::Window(DeviceMemory& memory) : memory_(memory) {
  if (memory_.windows_++ == 0) memory_.SetAccess(PROT_READ | PROT_WRITE);
}

DeviceMemory::Window::~Window() {
  if (--memory_.windows_ == 0) memory_.SetAccess(PROT_NONE);
}

}  // namespace carafe::vgpu
