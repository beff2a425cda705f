#include "carafe/train/observer.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/comm_thread.h"

namespace carafe {
namespace {

// "A:B", either may be left out.
void ParseRange(const std::string& text, int64_t* first, int64_t* end) {
  const size_t colon = text.find(':');
  const auto number = [&](std::string_view part, int64_t* value) {
    if (part.empty()) return true;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), *value);
    return error == std::errc() && stop == part.data() + part.size() && *value >= 0;
  };
  if (colon != std::string::npos && number(std::string_view(text).substr(0, colon), first) &&
      number(std::string_view(text).substr(colon + 1), end) && *first < *end)
    return;
  throw ConfigError(fmt::format("--trace_iterations is \"{}\"", text),
                    "give the first iteration and the one after the last, e.g. 100:110");
}

}  // namespace

Observer::Observer(const ObserveOptions& options, Group& group, std::function<double()> data_wait)
    : options_(options), group_(group), data_wait_(std::move(data_wait)) {
  if (!options.trace_iterations.empty()) ParseRange(options.trace_iterations, &first_, &end_);
  if (!options.trace.empty()) {
    recorder_ = std::make_unique<TraceRecorder>();
    group.OnRoot("the trace file", [&] { WriteEmptyTrace(options.trace); });
  }
  if (!options.stats.empty()) stats_ = std::make_unique<StepStats>(options.stats, group);
  if (!options.stats_path.empty())
    yaml_ = std::make_unique<StatsYaml>(options.stats_path, group.rank());
  watching_ = (recorder_ || measures()) && group.thread() != nullptr;
  if (watching_) group.thread()->WatchMessages(recorder_.get(), &counters_);
}

Observer::~Observer() {
  if (watching_) group_.thread()->StopWatching();
}

Observer::Marks Observer::Now(double wait_seconds) const {
  return {
      .time = TraceClock(),
      .data_wait = data_wait_(),
      .comm_wait = wait_seconds,
      .comm_busy = counters_.busy_seconds.load(std::memory_order_relaxed),
      .sent = static_cast<double>(counters_.bytes_sent.load(std::memory_order_relaxed)),
      .received = static_cast<double>(counters_.bytes_received.load(std::memory_order_relaxed))};
}

void Observer::BeginStep(int64_t iteration, double wait_seconds) {
  iteration_ = iteration;
  if (recorder_) recorder_->SetRecording(iteration >= first_ && iteration < end_);
  Begin("iteration", fmt::format("iteration {}", iteration));
  if (yaml_) yaml_->BeginStep();
  if (measures()) begin_ = Now(wait_seconds);
}

void Observer::Ready(double wait_seconds) {
  if (measures()) ready_ = TraceClock() - begin_.time - (wait_seconds - begin_.comm_wait);
}

void Observer::EndStep(double wait_seconds) {
  End();
  if (!measures()) return;
  const Marks now = Now(wait_seconds);
  const Marks last = std::exchange(last_, now);
  const StepSample sample{.seconds = now.time - begin_.time,
                          .ready = ready_,
                          .data_wait = now.data_wait - begin_.data_wait,
                          .comm_wait = now.comm_wait - begin_.comm_wait,
                          .comm_busy = now.comm_busy - begin_.comm_busy,
                          .bytes_sent = now.sent - last.sent,
                          .bytes_received = now.received - last.received};
  if (yaml_) yaml_->Add(sample);
  if (stats_) stats_->Add(iteration_, sample);
}

void Observer::Finish() {
  if (recorder_) {
    recorder_->SetRecording(false);
    if (recorder_->full())
      LogWarning(
          "rank {}: the trace is full, and lacks what came later: choose with "
          "--trace_iterations=A:B",
          group_.rank());
    WriteTrace(group_, *recorder_, options_.trace);
    if (group_.rank() == 0)
      LogInfo("trace: {} (for ui.perfetto.dev or chrome://tracing)", options_.trace);
  }
  if (yaml_) group_.Together("the statistics files", [&] { yaml_->Write(); });
  if (stats_ && group_.rank() == 0) LogInfo("stats: {}; {}", options_.stats, stats_->Summary());
}

void Observer::Begin(std::string_view category, std::string_view name) {
  if (recorder_) recorder_->Begin(category, name);
}

void Observer::End() {
  if (recorder_) recorder_->End();
}

}  // namespace carafe
