// Streams as queues, and the order in which their work runs. Nothing runs by itself: an operation
// runs when the host waits for it, or when chance (seeded) lets a queue advance while the host adds
// other work. So work is as late as CUDA permits, or as early, and a missing wait shows as a wrong
// result, the same one for the same seed. Operations run one at a time, on the host's thread that
// waits, with access to their device's memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/vgpu/faults.h"
#include "tests/vgpu/memory.h"
#include "tests/vgpu/vgpu.h"

namespace carafe::vgpu {

// The kernel or copy that this thread is running; null outside of any.
const char* RunningOperation();

struct VirtualDevice {
  VirtualDevice(int number, size_t limit) : index(number), memory(number, limit) {}
  const int index;
  DeviceMemory memory;
  cudaError_t broken = cudaSuccess;  // what all calls return from now on
};

// What an event was recorded behind.
struct Marker {
  bool done = false;
};

struct Queue {
  struct Operation {
    const char* what;
    std::function<void()> run;
    std::shared_ptr<Marker> marker;  // done after `run`; may be null
  };
  VirtualDevice* device;
  std::deque<Operation> operations;
};

// Everything there is; all functions but Lock need the lock.
class Scheduler {
 public:
  static Scheduler& Get();  // from the environment at the first call; never destroyed
  std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }

  int num_devices() const { return num_devices_; }
  VirtualDevice& device(int index);
  Queue* AddQueue(VirtualDevice& device);
  bool IsQueue(const Queue* queue) const { return queues_.count(const_cast<Queue*>(queue)) > 0; }
  void RemoveQueue(Queue* queue);

  // Behind what the queue has; may run some of any queue's work.
  void Add(Queue& queue, Queue::Operation operation);
  // Runs until the marker is done; null: until the queue is empty.
  cudaError_t Finish(Queue& queue, const Marker* until);
  cudaError_t FinishAll(VirtualDevice& device);

  Faults& faults() { return faults_; }
  void set_faults(const std::string& table) { faults_ = Faults(table); }
  void set_seed(uint64_t seed);
  bool Chance(int of) { return seed_ != 0 && random_() % static_cast<uint64_t>(of) == 0; }
  Counts& counts() { return counts_; }

 private:
  Scheduler();
  void RunNext(Queue& queue);
  void RunSome();

  std::mutex mutex_;
  const int num_devices_;
  const size_t memory_limit_;
  std::vector<std::unique_ptr<VirtualDevice>> devices_;
  std::set<Queue*> queues_;
  std::vector<Queue*> order_;  // the same, as they were made: chance does not depend on addresses
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  Faults faults_;
  Counts counts_;
};

}  // namespace carafe::vgpu
