// Records what a rank does and when, for `--trace`: spans of its threads (compute, data) and
// messages; the ranks' records are merged into one file for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/comm/message_trace.h"
#include "carafe/core/run_context.h"

namespace carafe {

// Begin and End may be called by any thread, for spans of that thread; Message by the communication
// thread. A thread becomes a lane: "data" if its first span is of category "load" (a batch is
// made), else "compute".
class TraceRecorder final : public Trace, public MessageTrace {
 public:
  // Beyond `most` spans and messages nothing more is recorded: 200,000 are about 20 MB of JSON.
  explicit TraceRecorder(size_t most = 200'000) : most_(most) {}

  void SetRecording(bool on);  // a span counts if it begins while this is on
  void Begin(std::string_view category, std::string_view name) override;
  void End() override;
  void Message(const MessageEvent& event) override;

  double start() const { return start_; }  // when this was made, by TraceClock
  bool full() const;
  // The events of this rank, separated by commas, without brackets. `origin` is the time, in this
  // rank's clock, that shall be 0.
  std::string Events(int rank, const std::string& host, double origin) const;

 private:
  struct Span {
    int lane, category, name;
    double begin, end;
  };
  struct Open {
    int category, name;
    double begin;
    bool counts;
  };
  struct Lane {
    int number;
    std::string name;
    std::vector<Open> open;
  };
  int Intern(std::string_view text);

  const size_t most_;
  const double start_ = TraceClock();
  mutable std::mutex mutex_;  // guards all below
  bool recording_ = false;
  std::map<std::thread::id, Lane> lanes_;
  std::map<std::string, int, std::less<>> numbers_;  // of texts_
  std::vector<std::string> texts_;
  std::vector<Span> spans_;
  std::vector<MessageEvent> messages_;
};

// How far each rank's clock is ahead of rank 0's, in seconds. A collective call.
std::vector<double> ClockOffsets(Group& group);

// At the start of a run, on one rank: a path that cannot be written is found before training.
void WriteEmptyTrace(const std::string& path);

// One JSON file out of all ranks' records, written by rank 0. A collective call; throws Error on
// all ranks if the file cannot be written.
void WriteTrace(Group& group, const TraceRecorder& recorder, const std::string& path);

}  // namespace carafe
