#include "carafe/train/trace_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "carafe/base/file.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/comm/run_ranks.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using Json = nlohmann::json;

Json EventsOf(const TraceRecorder& recorder) {
  return Json::parse("[" + recorder.Events(0, "h\"1", recorder.start()) + "]");
}

std::vector<Json> OfPhase(const Json& events, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

TEST(TraceRecorder, SpansOfAThreadAreNestedInOneLane) {
  TraceRecorder recorder;
  recorder.SetRecording(true);
  recorder.Begin("forward", "conv\"1");
  recorder.Begin("data", "wait");
  recorder.End();
  recorder.End();
  const auto spans = OfPhase(EventsOf(recorder), "X");
  ASSERT_EQ(spans.size(), 2u);
  const Json &inner = spans[0], &outer = spans[1];  // an inner one ends first
  EXPECT_EQ(outer["name"], "conv\"1");
  EXPECT_EQ(inner["cat"], "data");
  EXPECT_EQ(inner["tid"], outer["tid"]);
  const double begin = outer["ts"], length = outer["dur"], at = inner["ts"], takes = inner["dur"];
  EXPECT_GE(at, begin - 0.002);  // written with three digits
  EXPECT_LE(at + takes, begin + length + 0.002);
}

TEST(TraceRecorder, ThreadsThatLoadDataHaveALaneOfTheirOwn) {
  TraceRecorder recorder;
  recorder.SetRecording(true);
  recorder.Begin("forward", "conv1");
  recorder.End();
  std::thread([&] {
    recorder.Begin("load", "data");
    recorder.End();
  }).join();
  std::set<std::string> lanes;
  for (const Json& event : OfPhase(EventsOf(recorder), "M"))
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
  EXPECT_EQ(lanes, (std::set<std::string>{"compute", "data"}));
}

TEST(TraceRecorder, KeepsOnlyWhatBeginsWhileItRecords) {
  TraceRecorder recorder;
  recorder.Begin("iteration", "0");
  recorder.SetRecording(true);
  recorder.End();
  recorder.Begin("iteration", "1");
  recorder.SetRecording(false);
  recorder.End();
  const auto spans = OfPhase(EventsOf(recorder), "X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["name"], "1");
}

TEST(TraceRecorder, StopsWhenItIsFull) {
  TraceRecorder recorder(3);
  recorder.SetRecording(true);
  for (int i = 0; i < 10; ++i) {
    recorder.Begin("forward", "x");
    recorder.End();
  }
  recorder.Message({.sent = true, .peer = 1});
  EXPECT_TRUE(recorder.full());
  EXPECT_EQ(OfPhase(EventsOf(recorder), "X").size(), 3u);
  EXPECT_EQ(OfPhase(EventsOf(recorder), "b").size(), 0u);
}

TEST(ClockOffsets, ThreadsOfOneProcessHaveOneClock) {
  RunRanks(3, [](Group& group) {
    for (const double offset : ClockOffsets(group)) EXPECT_LT(std::abs(offset), 5.0);
  });
}

TEST(WriteTrace, MergesSpansAndMessagesOfAllRanks) {
  const TestFolder folder;
  const std::string path = folder / "trace.json";
  RunRanks(3, [&](Group& group) {
    TraceRecorder recorder;
    MessageCounters counters;
    recorder.SetRecording(true);
    group.thread()->WatchMessages(&recorder, &counters);
    recorder.Begin("iteration", "iteration 0");
    group.AllGather(std::string(1000, 'x'), "something to send");
    recorder.End();
    group.thread()->StopWatching();
    EXPECT_GE(counters.bytes_sent.load(), 2000);
    EXPECT_GE(counters.bytes_received.load(), 2000);
    EXPECT_GE(counters.busy_seconds.load(), 0);
    WriteTrace(group, recorder, path);
  });
  const Json events = Json::parse(ReadFile(path))["traceEvents"];
  std::set<int> with_spans, with_messages;
  for (const Json& event : events) {
    if (event["ph"] == "X") with_spans.insert(event["pid"].get<int>());
    if (event["ph"] == "b") with_messages.insert(event["pid"].get<int>());
  }
  EXPECT_EQ(with_spans, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(with_messages, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(OfPhase(events, "b").size(), OfPhase(events, "e").size());
}

}  // namespace
}  // namespace carafe
