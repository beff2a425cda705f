// What overlap means, read from the trace of a run over a slow link: gradients leave while the
// backward pass still computes, and the next forward pass begins while they still travel.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "carafe/base/file.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/comm/tags.h"
#include "carafe/train/trainer.h"
#include "tests/support/test_folder.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {
namespace {

using Json = nlohmann::json;
constexpr double kBytesPerSecond = 3e6;

// Gradients leave one after the other, each after as long as its bytes take; all else at once.
class SlowTransport final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    if (tag < kExchangePayloadTag) return inner().Send(to, tag, data, bytes);
    line_free_ = std::max(line_free_, Clock::now()) +
                 std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(static_cast<double>(bytes) / kBytesPerSecond));
    queue_.push_back({to, tag, data, bytes, line_free_, next_});
    return next_++;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    Leave();
    return inner().Receive(from, tag, data, bytes);
  }
  bool Done(Request request) override {
    Leave();
    if (request < kFirst) return inner().Done(request);
    const auto left = left_.find(request);
    if (left == left_.end() || !inner().Done(left->second)) return false;
    left_.erase(left);
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Request kFirst = Request{1} << 62;
  struct Waiting {
    int to, tag;
    const void* data;
    size_t bytes;
    Clock::time_point leaves;
    Request request;
  };
  void Leave() {
    while (!queue_.empty() && Clock::now() >= queue_.front().leaves) {
      const Waiting& first = queue_.front();
      left_[first.request] = inner().Send(first.to, first.tag, first.data, first.bytes);
      queue_.pop_front();
    }
  }

  std::deque<Waiting> queue_;
  std::map<Request, Request> left_;
  Clock::time_point line_free_;
  Request next_ = kFirst;
};

// A first layer that computes long and has few parameters, and one in the middle with many.
constexpr char kSolver[] = R"(
  net_param {
    layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
      shape { dim: 16 dim: 3 dim: 60 dim: 60 } shape { dim: 16 }
      data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
    layer { name: "first" type: "Convolution" bottom: "data" top: "first" convolution_param {
      num_output: 16 kernel_size: 5 stride: 1 weight_filler { type: "xavier" } } }
    layer { name: "pool" type: "Pooling" bottom: "first" top: "pool" pooling_param {
      pool: MAX kernel_size: 8 stride: 8 } }
    layer { name: "middle" type: "InnerProduct" bottom: "pool" top: "middle" inner_product_param {
      num_output: 200 weight_filler { type: "xavier" } } }
    layer { name: "last" type: "InnerProduct" bottom: "middle" top: "last" inner_product_param {
      num_output: 10 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "last" bottom: "label" top: "loss" }
  }
  base_lr: 0.01 lr_policy: "fixed" max_iter: 6 random_seed: 1 display: 0
  snapshot_after_train: false)";

struct Times {
  std::vector<double> forward_first;           // begins, by iteration
  std::vector<double> backward, backward_end;  // of the whole pass, by iteration
  std::vector<double> sent, arrived;           // gradients: handed over, and here
};

Times TimesOfRank0(const Json& events) {
  Times times;
  std::set<std::string> received;
  for (const Json& event : events) {
    if (event["pid"] != 0) continue;
    const double at = event.value("ts", 0.0);
    const std::string kind = event["ph"], category = event.value("cat", "");
    if (category == "forward" && event["name"] == "first") times.forward_first.push_back(at);
    if (category == "backward" && event["name"] == "loss") times.backward.push_back(at);
    if (category == "backward" && event["name"] == "first")
      times.backward_end.push_back(at + event["dur"].get<double>());
    if (category != "comm") continue;
    const bool is_send = event["name"].get<std::string>().starts_with("send");
    if (kind == "b" && event["args"]["tag"] >= kExchangePayloadTag) {
      if (is_send) times.sent.push_back(at);
      if (!is_send) received.insert(event["id"]);
    }
    if (kind == "e" && received.count(event["id"]) > 0) times.arrived.push_back(at);
  }
  for (auto* all :
       {&times.forward_first, &times.backward, &times.backward_end, &times.sent, &times.arrived})
    std::sort(all->begin(), all->end());
  return times;
}

bool AnyBetween(const std::vector<double>& times, double begin, double end) {
  return std::any_of(times.begin(), times.end(), [&](double t) { return t > begin && t < end; });
}

// Iterations in which a gradient left before the backward pass ended, and in which some of the
// iterations before had not arrived when the forward pass began.
std::pair<int, int> Overlapped(const std::string& in_solver, std::optional<bool> flag) {
  const TestFolder folder;
  TrainOptions options;
  options.write_files = false;
  options.watch_signals = false;
  options.overlap = flag;
  options.bucket_mb = 0.01;
  options.progress = ProgressMode::kNone;
  options.trace = folder / "trace.json";
  RunRanks(
      2,
      [&](Group& group) {
        Stream stream;
        Trainer<float> trainer(ParseSolverSpec(kSolver + in_solver, "solver.prototxt"), options,
                               group, stream);
        trainer.Run();
      },
      {},
      [](std::unique_ptr<Transport> threads) {
        return std::make_unique<SlowTransport>(std::move(threads));
      });
  const Times times = TimesOfRank0(Json::parse(ReadFile(options.trace))["traceEvents"]);
  EXPECT_EQ(times.forward_first.size(), 6u);
  EXPECT_EQ(times.backward_end.size(), 6u);
  int early = 0, late = 0;
  for (size_t i = 0; i < times.backward_end.size() && i < times.forward_first.size(); ++i) {
    early += AnyBetween(times.sent, times.backward[i], times.backward_end[i]);
    // Every iteration brings as many payloads. What is here of this one cannot be taken for those
    // before: a peer sends it after it has those.
    const auto here =
        std::lower_bound(times.arrived.begin(), times.arrived.end(), times.forward_first[i]) -
        times.arrived.begin();
    const size_t before = i * times.arrived.size() / times.forward_first.size();
    late += static_cast<size_t>(here) < before;
  }
  return {early, late};
}

TEST(Overlap, GradientsLeaveBeforeBackwardEndsAndForwardBeginsBeforeTheyHaveArrived) {
  const auto [early, late] = Overlapped("", {});
  EXPECT_GE(early, 1);  // a loaded machine may wake the communication thread late
  EXPECT_GE(late, 1);
}

TEST(Overlap, OffMeansThatNothingLeavesBeforeBackwardEnds) {
  EXPECT_EQ(Overlapped("", false).first, 0);
}

TEST(Overlap, TheSolverTurnsItOffAndTheFlagOnAgain) {
  EXPECT_EQ(Overlapped(" overlap: false", {}).first, 0);
  EXPECT_GE(Overlapped(" overlap: false", true).first, 1);
}

}  // namespace
}  // namespace carafe
