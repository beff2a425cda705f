// Seeing a run: --trace, --stats and --stats_path. Knows when an iteration begins, when its
// gradients are ready and when it ends; the trainer tells.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "carafe/comm/group.h"
#include "carafe/comm/message_trace.h"
#include "carafe/core/run_context.h"
#include "carafe/train/stats_yaml.h"
#include "carafe/train/step_stats.h"
#include "carafe/train/trace_recorder.h"

namespace carafe {

struct ObserveOptions {
  std::string trace;             // JSON file; "": none
  std::string trace_iterations;  // "A:B": those from A on and before B; "": all, as memory allows
  std::string stats;             // CSV file; "": none
  std::string stats_path;        // YAML files of all ranks begin with it; "": none
};

// Used by the thread that steps, on all ranks alike, but for Begin and End, which are for any. The
// exchange's `wait_seconds` are its sums since the start.
class Observer final : public Trace {
 public:
  // `data_wait` gives the seconds that the nets of the stepping thread have waited for data since
  // the start; called by BeginStep and EndStep. Throws ConfigError for options, DataError for
  // files. The group must outlive it.
  Observer(const ObserveOptions& options, Group& group, std::function<double()> data_wait);
  ~Observer() override;

  void BeginStep(int64_t iteration, double wait_seconds);
  void Ready(double wait_seconds);  // the last gradient of the step was handed over
  void EndStep(double wait_seconds);
  void Finish();  // a collective call at the end of a run: writes the trace, logs the sums

  // Spans go to the trace.
  void Begin(std::string_view category, std::string_view name) override;
  void End() override;

 private:
  struct Marks {
    double time = 0, data_wait = 0, comm_wait = 0, comm_busy = 0, sent = 0, received = 0;
  };
  Marks Now(double wait_seconds) const;
  bool measures() const { return stats_ || yaml_; }

  const ObserveOptions options_;
  Group& group_;
  const std::function<double()> data_wait_;
  int64_t first_ = 0, end_ = INT64_MAX;  // iterations of the trace
  MessageCounters counters_;
  std::unique_ptr<TraceRecorder> recorder_;
  std::unique_ptr<StepStats> stats_;
  std::unique_ptr<StatsYaml> yaml_;
  bool watching_ = false;
  int64_t iteration_ = 0;
  Marks last_ = {};  // at the end of the last step: what others send early belongs to the next one
  Marks begin_;
  double ready_ = 0;  // seconds from begin_, without waits for ranks
};

}  // namespace carafe
