// Any exchange for workers whose nets lie on GPUs: gradients and values go through page-locked
// memory of the host, where the exchange adds, sends and receives them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "carafe/exchange/exchange.h"

namespace carafe {

// The workers of one rank. All of it outlives the exchange.
template <typename T>
struct DeviceWorkers {
  std::vector<Stream*> streams;  // by worker: that of its passes
  // By worker and parameter: its own copy of the values. A worker with none (an empty list) shares
  // those of worker 0, on the same device. Worker 0's are ParamInfo::value.
  std::vector<std::vector<T*>> values;
};

// As MakeExchange, for a setup with memory of devices. setup.update runs on worker 0's device;
// strategies that own parameters keep and update them in host memory, as they do on CPUs. What was
// updated or received reaches a worker's device in its AwaitValue.
//
// Parameters with ParamInfo::memory of the CPU (running statistics) are passed on as they are.
// Drain must be called by worker 0, while the others rest.
template <typename T>
std::unique_ptr<Exchange<T>> MakeStagedExchange(const std::string& name,
                                                const ExchangeSetup<T>& setup,
                                                const DeviceWorkers<T>& workers);

}  // namespace carafe
