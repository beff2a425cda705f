// Parameters that Forward writes instead of an update: BatchNorm's running mean and variance.
#pragma once

#include <deque>
#include <vector>

#include "carafe/exchange/exchange.h"
#include "carafe/solvers/worker_team.h"

namespace carafe {

// After each step the running statistics of all workers become their mean, so that the replicas
// stay equal. To the exchange they are one more parameter: its gradient is what a worker's forward
// passes have left (Collect), its sum becomes the mean (TakeSum), and its value goes to all workers
// of the rank (HandOut). Collect is called by the threads of the workers, each for itself; the rest
// by one thread while no worker runs a layer that reads them.
template <typename T>
class RunningStatistics {
 public:
  explicit RunningStatistics(WorkerTeam<T>& team);  // which outlives this

  const std::vector<int>& params() const { return params_; }
  // One worker keeps its own.
  bool exchanged() const { return team_.replica(0).count > 1 && count_ > 0; }
  ParamInfo<T> Info();
  void Collect(int worker);
  void TakeSum();
  // TakeSum for a part of the sum in other memory, which becomes 0; without HandOut.
  void MeanOf(int64_t count, T* sum, T* mean) const;
  void HandOut();
  // What worker 0 has becomes that of all workers: after the net was loaded.
  void CopyFromFirstWorker();

 private:
  WorkerTeam<T>& team_;
  std::vector<int> params_;
  int64_t count_ = 0;                   // of all elements
  std::vector<std::vector<T>> values_;  // by worker, one parameter after the other
  std::vector<T> mean_;
  std::deque<Stream> streams_;  // by worker, for HandOut: the worker may be using its own
};

}  // namespace carafe
