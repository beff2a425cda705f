#include "carafe/train/trace_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "carafe/base/error.h"
#include "carafe/base/file.h"

namespace carafe {
namespace {

constexpr int kFirstMessageLane = 100;  // lanes of threads have smaller numbers

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string LaneName(int rank, int lane, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                     rank, lane, Quoted(name));
}

}  // namespace

void TraceRecorder::SetRecording(bool on) {
  std::lock_guard lock(mutex_);
  recording_ = on;
}

int TraceRecorder::Intern(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const int number = static_cast<int>(texts_.size());
  numbers_.emplace(text, number);
  texts_.emplace_back(text);
  return number;
}

void TraceRecorder::Begin(std::string_view category, std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto [lane, is_new] = lanes_.try_emplace(std::this_thread::get_id());
  if (is_new) {
    lane->second.number = static_cast<int>(lanes_.size());
    lane->second.name = category == "load" ? "data" : "compute";
  }
  const bool counts = recording_ && spans_.size() + messages_.size() < most_;
  lane->second.open.push_back(
      {counts ? Intern(category) : 0, counts ? Intern(name) : 0, TraceClock(), counts});
}

void TraceRecorder::End() {
  std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(std::this_thread::get_id());
  Ensure(lane != lanes_.end() && !lane->second.open.empty(), "a span ends that never began");
  const Open open = lane->second.open.back();
  lane->second.open.pop_back();
  if (open.counts)
    spans_.push_back({lane->second.number, open.category, open.name, open.begin, TraceClock()});
}

void TraceRecorder::Message(const MessageEvent& event) {
  std::lock_guard lock(mutex_);
  if (recording_ && spans_.size() + messages_.size() < most_) messages_.push_back(event);
}

bool TraceRecorder::full() const {
  std::lock_guard lock(mutex_);
  return spans_.size() + messages_.size() >= most_;
}

std::string TraceRecorder::Events(int rank, const std::string& host, double origin) const {
  std::lock_guard lock(mutex_);
  const auto microseconds = [origin](double time) { return (time - origin) * 1e6; };
  std::string text =
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", rank,
                  Quoted(fmt::format("rank {} on {}", rank, host)));
  text += fmt::format(
      ",\n"
      R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
      rank, rank);
  for (const auto& [thread, lane] : lanes_) text += ",\n" + LaneName(rank, lane.number, lane.name);
  if (!messages_.empty()) {
    text += ",\n" + LaneName(rank, kFirstMessageLane, "communication");
  }
  for (const Span& span : spans_)
    text += fmt::format(
        ",\n"
        R"({{"ph":"X","cat":{},"name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        Quoted(texts_[static_cast<size_t>(span.category)]),
        Quoted(texts_[static_cast<size_t>(span.name)]), rank, span.lane, microseconds(span.begin),
        (span.end - span.begin) * 1e6);
  // Messages overlap each other, so they are pairs of asynchronous events with a number.
  int64_t id = 0;
  for (const MessageEvent& m : messages_) {
    ++id;
    const std::string name = fmt::format("{} rank {}", m.sent ? "send to" : "receive from", m.peer);
    text += fmt::format(
        ",\n"
        R"({{"ph":"b","cat":"comm","name":"{}","id":"{}.{}","pid":{},"tid":{},"ts":{:.3f},)"
        R"("args":{{"bytes":{},"tag":{}}}}})",
        name, rank, id, rank, kFirstMessageLane, microseconds(m.begin), m.bytes, m.tag);
    text += fmt::format(
        ",\n"
        R"({{"ph":"e","cat":"comm","name":"{}","id":"{}.{}","pid":{},"tid":{},"ts":{:.3f}}})",
        name, rank, id, rank, kFirstMessageLane, microseconds(m.end));
  }
  return text;
}

// A stamp that rank a gives when it enters a gathering has reached rank b before b leaves it. So
// left_b - entered_a is the clocks' difference plus a delay, both ways; the smallest of several
// rounds have the smallest delays, which cancel as far as they are equal.
std::vector<double> ClockOffsets(Group& group) {
  constexpr int kRounds = 8;
  const int size = group.size();
  std::vector<double> entered(kRounds), left(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    entered[static_cast<size_t>(round)] = TraceClock();
    group.Barrier("the clocks of all ranks");
    left[static_cast<size_t>(round)] = TraceClock();
  }
  std::vector<double> mine = entered;
  mine.insert(mine.end(), left.begin(), left.end());
  const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double));
  const std::vector<std::string> all = group.AllGather(text, "the clocks of all ranks");
  const auto stamp = [&](int rank, int index) {
    double value;
    std::memcpy(&value, all[static_cast<size_t>(rank)].data() + sizeof value * index, sizeof value);
    return value;
  };
  std::vector<double> offsets(static_cast<size_t>(size), 0.0);
  for (int r = 1; r < size; ++r) {
    double there = std::numeric_limits<double>::infinity(), back = there;
    for (int round = 0; round < kRounds; ++round) {
      there = std::min(there, stamp(r, kRounds + round) - stamp(0, round));
      back = std::min(back, stamp(0, kRounds + round) - stamp(r, round));
    }
    offsets[static_cast<size_t>(r)] = (there - back) / 2;
  }
  return offsets;
}

namespace {

void WriteEvents(const std::string& path, const std::string& events) {
  WriteFileAtomically(path, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events + "\n]}\n");
}

}  // namespace

void WriteEmptyTrace(const std::string& path) { WriteEvents(path, ""); }

void WriteTrace(Group& group, const TraceRecorder& recorder, const std::string& path) {
  const std::vector<double> offsets = ClockOffsets(group);
  double origin[] = {recorder.start()};
  group.Broadcast(origin, sizeof origin, 0, "the origin of the trace");
  std::string mine = recorder.Events(group.rank(), group.host(),
                                     origin[0] + offsets[static_cast<size_t>(group.rank())]);
  std::string merged;
  for (int r = 0; r < group.size();
       ++r) {  // one after the other: never all in memory but at rank 0
    uint64_t bytes[] = {mine.size()};
    group.Broadcast(bytes, sizeof bytes, r, "a rank's trace");
    std::string part = r == group.rank() ? mine : std::string(bytes[0], '\0');
    group.Broadcast(part.data(), part.size(), r, "a rank's trace");
    if (group.rank() == 0) merged += (merged.empty() ? "" : ",\n") + part;
  }
  group.OnRoot("the trace file", [&] { WriteEvents(path, merged); });
}

}  // namespace carafe
