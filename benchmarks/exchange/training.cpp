#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "benchmarks/exchange/modes.h"
#include "benchmarks/ours/inputs.h"
#include "carafe/base/timer.h"
#include "carafe/train/trainer.h"

namespace carafe {
namespace {

constexpr int kWarmUp = 8;  // iterations; buckets are merged after five

// Of all threads of this process, in the program and in the kernel.
double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

void RunTraining(Group& group, const TrainingOptions& options) {
  Group self;
  Group& used = options.alone ? self : group;
  Stream stream(CpuDevice(), options.threads);
  std::vector<double> started;  // of every iteration
  const Timer clock;
  TrainOptions train;
  train.exchange = options.exchange;
  train.overlap = options.overlap;
  train.message_kb = static_cast<double>(options.scheme.message_bytes) / 1024;
  train.tree_branches = options.scheme.branches;
  TrainTable().row("sum").value.Set(train, options.scheme.algorithm, "--sum");
  train.exchange_timeout = options.scheme.timeout;
  train.check_replicas = 0;
  train.on_nan = OnNan::kContinue;
  train.progress = ProgressMode::kNone;
  train.quiet = true;
  train.write_files = false;
  train.watch_signals = false;
  train.before_iteration = [&] { started.push_back(clock.Seconds()); };
  SolverSpec spec = LoadSolverSpec(options.solver);
  spec.param.set_display(0);
  spec.param.set_snapshot_after_train(false);
  Trainer<float> trainer(spec, train, used, stream);
  FillInputs(stream, trainer.solver().net(), options.classes);
  trainer.Step(kWarmUp);
  // As many steps as rank 0 finds right for the time.
  const double trial = (started.back() - started.front()) / (kWarmUp - 1);
  int64_t steps = std::clamp<int64_t>(static_cast<int64_t>(options.seconds / trial), 5, 1000);
  group.Broadcast(&steps, sizeof steps, 0, "the number of steps");
  group.Barrier("the start of the measured steps");
  started.clear();
  const ExchangeStats before = trainer.solver().exchange_stats();
  const double cpu_before = CpuSeconds();
  trainer.Step(steps);
  started.push_back(clock.Seconds());
  const ExchangeStats after = trainer.solver().exchange_stats();
  double sums[] = {CpuSeconds() - cpu_before, after.wait_seconds - before.wait_seconds};
  group.Sum(sums);
  if (group.rank() != 0) return;
  std::vector<double> seconds;
  for (size_t i = 1; i < started.size(); ++i) seconds.push_back(started[i] - started[i - 1]);
  std::sort(seconds.begin(), seconds.end());
  int64_t parameters = 0;
  for (const Param<float>& param : trainer.solver().net().params())
    parameters += param.learned ? param.blob->count() : 0;
  const auto all = static_cast<double>(steps * group.size());
  fmt::print(
      "{{\"ranks\": {}, \"steps\": {}, \"best\": {:.6f}, \"median\": {:.6f}, \"cpu\": {:.6f}, "
      "\"waiting\": {:.6f}, \"parameters\": {}, \"sent_per_step\": {}}}\n",
      group.size(), steps, seconds.front(), seconds[seconds.size() / 2], sums[0] / all,
      sums[1] / all, parameters, (after.bytes_sent - before.bytes_sent) / steps);
  std::fflush(stdout);
}

}  // namespace carafe
