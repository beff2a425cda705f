// The flow of parameters through an exchange: any number of workers and ranks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/exchange/staged_exchange.h"
#include "carafe/solvers/flow_setup.h"
#include "carafe/solvers/parameter_flow.h"

namespace carafe {

// Step i only starts the sum of p (GradientFinal of the last worker that shares p's bucket). The
// update of step i runs in Update(), which the exchange calls once it has the sum:
//   - in BeforeRead(w, p) of step i + 1, on the thread of the first worker that reads p;
//   - or earlier, in the BeforeRead or FinishReads of another parameter that would have to wait;
//   - or in Drain(), on the thread of worker 0;
//   - at the owner of a shard (ssp): in UpdateShard(), on a thread of the exchange;
//   - where rank 0 alone updates (server, tree): on rank 0, also in GradientFinal of step i, once
//     no rank has voted against the step. The other ranks receive the values.
// So the first layers of step i + 1 compute while the gradients of the last ones still travel.
//
// The running statistics are one more parameter of the exchange, whose update is a mean.
template <typename T>
class UpdateWhenRead final : public ParameterFlow<T> {
 public:
  explicit UpdateWhenRead(const FlowSetup<T>& setup);
  ~UpdateWhenRead() override;

  void BeforeRead(int worker, int param) override;
  void FinishReads(int worker) override;
  void ForwardDone(int worker) override;
  void BeginUpdates(const StepStart& step) override;
  void FactorsReady(int worker, int param, const Factors<T>& factors) override;
  void GradientFinal(int worker, int param) override;
  void Cancel() override;
  void Drain() override;
  bool CanCancelAfterBackward() const override { return true; }
  Exchange<T>& exchange() override { return *exchange_; }
  const std::vector<ParamInfo<T>>& exchanged() const override { return infos_; }
  bool HistoryIsSharded() const override { return sharded_; }
  void GatherHistory(int root) override;
  void ReleaseHistory() override;

 private:
  static constexpr int kNotExchanged = -1;

  void ListExchanged(const FlowSetup<T>& setup);
  DeviceWorkers<T> OnDevices();
  void RequestFactors();
  bool IsRunning(int index) const { return index == Count(params_); }
  void Update(int index, Stream& stream);
  void UpdateShard(const ShardUpdate<T>& update, Stream& stream);
  StepStart& StartOf(int64_t clock) { return At(starts_, clock % Count(starts_)); }
  void LoadHistory();
  static std::vector<T> MeanOf(const std::vector<std::string>& histories, size_t count);
  void Received(int index);
  StepNumbers<T> Numbers(Stream& stream);
  void MakeMeans(Stream& stream);

  WorkerTeam<T>& team_;
  Net<T>& net_;  // of worker 0
  Updater<T>& updater_;
  RunningStatistics<T>& running_;
  std::vector<int> params_;    // by index in the exchange; the running statistics follow these
  std::vector<int> index_of_;  // by parameter: its index in the exchange, or kNotExchanged
  std::vector<ParamInfo<T>> infos_;  // by index in the exchange
  StepStart step_;                   // whose updates are pending, or were the last
  std::vector<StepStart> starts_;    // of the last s + 1 steps, by clock modulo their number
  std::mutex mutex_;                 // guards numbers_: workers update different parameters at once
  std::optional<StepNumbers<T>> numbers_;  // of step_; made by the first update that needs them
  bool sharded_ = false;  // the exchange owns the history of all parameters that it updates
  Group& group_;
  std::unique_ptr<Exchange<T>> exchange_;
};

}  // namespace carafe
