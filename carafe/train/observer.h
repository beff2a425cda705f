// Seeing a run: --trace and --stats. Knows when an iteration begins, when its gradients are ready
// and when it ends; the trainer tells.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "carafe/comm/group.h"
#include "carafe/comm/message_trace.h"
#include "carafe/core/run_context.h"
#include "carafe/train/data_wait.h"
#include "carafe/train/step_stats.h"
#include "carafe/train/trace_recorder.h"

namespace carafe {

struct ObserveOptions {
  std::string trace;             // JSON file; "": none
  std::string trace_iterations;  // "A:B": those from A on and before B; "": all, as memory allows
  std::string stats;             // CSV file; "": none
};

// Used by the thread that steps, on all ranks alike, but for Begin and End, which are for any. The
// exchange's `wait_seconds` are its sums since the start.
class Observer final : public Trace {
 public:
  // Throws ConfigError for options, DataError for files. Group and data_wait outlive it.
  Observer(const ObserveOptions& options, Group& group, DataWait& data_wait);
  ~Observer() override;

  void BeginStep(int64_t iteration, double wait_seconds);
  void Ready(double wait_seconds);  // the last gradient of the step was handed over
  void EndStep(double wait_seconds);
  void Finish();  // a collective call at the end of a run: writes the trace, logs the sums

  // Spans go to the trace, those of the stepping thread also to `data_wait`.
  void Begin(std::string_view category, std::string_view name) override;
  void End() override;

 private:
  struct Marks {
    double time = 0, data_wait = 0, comm_wait = 0, comm_busy = 0, sent = 0, received = 0;
  };
  Marks Now(double wait_seconds) const;
  bool stepping() const { return std::this_thread::get_id() == stepper_.load(); }

  const ObserveOptions options_;
  Group& group_;
  DataWait& data_wait_;
  std::atomic<std::thread::id> stepper_{std::this_thread::get_id()};
  int64_t first_ = 0, end_ = INT64_MAX;  // iterations of the trace
  MessageCounters counters_;
  std::unique_ptr<TraceRecorder> recorder_;
  std::unique_ptr<StepStats> stats_;
  bool watching_ = false;
  int64_t iteration_ = 0;
  Marks last_ = {};  // at the end of the last step: what others send early belongs to the next one
  Marks begin_;
  double ready_ = 0;  // seconds from begin_, without waits for ranks
};

}  // namespace carafe
