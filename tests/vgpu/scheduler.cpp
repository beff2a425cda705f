#include "tests/vgpu/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "tests/vgpu/report.h"

namespace carafe::vgpu {
namespace {

thread_local const char* running_operation = nullptr;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t NumberFrom(const char* name, int64_t otherwise, int64_t most) {
  const std::string value = Variable(name);
  if (value.empty()) return otherwise;
  std::istringstream text(value);
  int64_t number = 0;
  if (!(text >> number) || !text.eof() || number < 0 || number > most) {
    Die(fmt::format("{} is \"{}\": give 0 to {}", name, value, most));
  }
  return number;
}

}  // namespace

const char* RunningOperation() { return running_operation; }

Scheduler& Scheduler::Get() {
  static Scheduler& scheduler = *new Scheduler;
  return scheduler;
}

Scheduler::Scheduler()
    : num_devices_(static_cast<int>(NumberFrom("CARAFE_VGPU_DEVICES", 8, 64))),
      memory_limit_(static_cast<size_t>(NumberFrom("CARAFE_VGPU_MEMORY_MB", 4096, 16384)) << 20),
      devices_(static_cast<size_t>(num_devices_)),
      faults_(Variable("CARAFE_VGPU_FAULTS")) {
  set_seed(static_cast<uint64_t>(NumberFrom("CARAFE_VGPU_SEED", 1, INT64_MAX)));
}

void Scheduler::set_seed(uint64_t seed) {
  seed_ = seed;
  random_.seed(seed);
}

VirtualDevice& Scheduler::device(int index) {
  auto& device = devices_.at(static_cast<size_t>(index));
  if (!device) device = std::make_unique<VirtualDevice>(index, memory_limit_);
  return *device;
}

Queue* Scheduler::AddQueue(VirtualDevice& device) {
  auto* queue = new Queue{&device, {}};
  queues_.insert(queue);
  order_.push_back(queue);
  return queue;
}

void Scheduler::RemoveQueue(Queue* queue) {
  queues_.erase(queue);
  order_.erase(std::ranges::find(order_, queue));
  delete queue;
}

void Scheduler::RunNext(Queue& queue) {
  const Queue::Operation operation = std::move(queue.operations.front());
  queue.operations.pop_front();
  VirtualDevice& device = *queue.device;
  if (device.broken == cudaSuccess) device.broken = faults_.NextOperation();
  if (device.broken == cudaSuccess && operation.run) {  // a broken device executes nothing
    const DeviceMemory::Window window(device.memory);
    running_operation = operation.what;
    operation.run();
    running_operation = nullptr;
  }
  if (operation.marker) operation.marker->done = true;
}

void Scheduler::RunSome() {
  while (Chance(4)) {
    Queue& queue = *order_[random_() % order_.size()];
    const uint64_t most = random_() % 8;
    for (uint64_t i = 0; i < most && !queue.operations.empty(); ++i) RunNext(queue);
  }
}

void Scheduler::Add(Queue& queue, Queue::Operation operation) {
  RunSome();
  queue.operations.push_back(std::move(operation));
  RunSome();
}

cudaError_t Scheduler::Finish(Queue& queue, const Marker* until) {
  if (until == nullptr ? !queue.operations.empty() : !until->done) ++counts_.waits;
  const DeviceMemory::Window window(queue.device->memory);  // once, not for each operation
  RunSome();
  while (until == nullptr ? !queue.operations.empty() : !until->done) {
    if (queue.operations.empty()) Die("the host waits for an event whose stream is gone");
    RunNext(queue);
    RunSome();
  }
  return queue.device->broken;
}

cudaError_t Scheduler::FinishAll(VirtualDevice& device) {
  for (Queue* queue : order_) {
    if (queue->device == &device) Finish(*queue, nullptr);
  }
  return device.broken;
}

Counts GetCounts() {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  return scheduler.counts();
}

void SetSeed(uint64_t seed) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  scheduler.set_seed(seed);
}

void SetFaults(const std::string& table) {
  Scheduler& scheduler = Scheduler::Get();
  const auto lock = scheduler.Lock();
  scheduler.set_faults(table);
  for (int i = 0; i < scheduler.num_devices(); ++i) scheduler.device(i).broken = cudaSuccess;
}

}  // namespace carafe::vgpu
