#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "benchmarks/exchange/modes.h"
#include "carafe/base/timer.h"

namespace carafe {
namespace {

// A thread that sleeps as long as layers compute. Sleeps end late, by up to 200 us on an idle core;
// what one lasts too long the next ones are shorter, but for what a machine that stood still has
// lost: layers that made up for that would compute faster than they can.
class Layers {
 public:
  void Sleep(double seconds) {
    const Timer timer;
    const double wanted = seconds - late_;
    if (wanted > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wanted));
    late_ = std::min(late_ + timer.Seconds() - seconds, kLatest);
  }

 private:
  static constexpr double kLatest = 1e-3;
  double late_ = 0;  // seconds
};

// By parameter, in the order of forward: seconds from the start of the backward pass.
std::vector<double> ReadyTimes(const std::vector<LayerProfile>& layers) {
  std::vector<double> times;
  double now = 0;
  for (size_t l = layers.size(); l-- > 0;) {
    now += layers[l].backward;
    times.insert(times.begin(), layers[l].params.size(), now);
  }
  return times;
}

}  // namespace

void RunReplay(Group& group, const ReplayOptions& given) {
  prctl(PR_SET_TIMERSLACK, 1);  // a sleep of 30 us is not to last 80
  ReplayOptions options = given;
  const SumCost cost = MeasureSumCost(group, options.exchange, options.scheme);
  if (options.scheme.message_bytes == 0) options.scheme.message_bytes = MessageBytesFor(cost);
  const std::vector<LayerProfile> layers = ReadProfile(options.profile);
  int64_t total = 0;
  double compute = 0;
  for (const LayerProfile& layer : layers) {
    compute += layer.forward + layer.backward;
    for (int64_t count : layer.params) total += count;
  }
  std::vector<float> gradients(static_cast<size_t>(total)), values(gradients.size());
  // The arena lies in the order of the backward pass; parameters are numbered in that of forward.
  std::vector<ParamInfo<float>> params;
  std::vector<std::vector<int>> params_of(layers.size());
  int64_t end = total;
  for (size_t l = 0; l < layers.size(); ++l)
    for (size_t i = 0; i < layers[l].params.size(); ++i) {
      end -= layers[l].params[i];
      params_of[l].push_back(static_cast<int>(params.size()));
      params.push_back({.name = fmt::format("{}/{}", layers[l].name, i),
                        .count = layers[l].params[i],
                        .value = values.data() + end,
                        .gradient = gradients.data() + end,
                        .arena_offset = end});
    }
  // Merged as a training run merges them after its fifth iteration.
  std::vector<int> bucket_sizes;
  if (options.bucket_mb == 0)
    bucket_sizes = PlanBuckets<float>(group, params, ReadyTimes(layers), cost);
  Stream stream;
  const auto exchange = MakeExchange<float>(
      options.exchange, {.group = group,
                         .params = params,
                         .update = [](int, Stream&) {},
                         .bucket_bytes = static_cast<size_t>(options.bucket_mb * 1048576),
                         .bucket_sizes = bucket_sizes,
                         .overlap = options.overlap,
                         .scheme = options.scheme});
  Layers layer;
  std::vector<double> seconds;
  double exposed = 0;
  int64_t sent = 0;
  for (int step = -2; step < options.steps; ++step) {  // two to warm up
    const ExchangeStats before = exchange->stats();
    const Timer timer;
    for (size_t l = 0; l < layers.size(); ++l) {
      for (int p : params_of[l]) exchange->AwaitValue(0, p, stream);
      layer.Sleep(layers[l].forward);
    }
    exchange->Vote({});
    for (size_t l = layers.size(); l-- > 0;) {
      layer.Sleep(layers[l].backward);
      for (int p : params_of[l]) exchange->GradientReady(0, p, stream);
    }
    exchange->FinishStep();
    exchange->AwaitVerdict();
    if (step < 0) continue;
    seconds.push_back(timer.Seconds());
    exposed += exchange->stats().wait_seconds - before.wait_seconds;
    sent = exchange->stats().bytes_sent;
  }
  exchange->Drain(0, stream);
  std::sort(seconds.begin(), seconds.end());
  if (group.rank() != 0) return;
  fmt::print(
      "{{\"exchange\": \"{}\", \"ranks\": {}, \"best\": {:.6f}, \"median\": {:.6f}, \"compute\": "
      "{:.6f}, \"exposed\": {:.6f}, \"parameters\": {}, \"sent_per_step\": {}}}\n",
      options.exchange, group.size(), seconds.front(), seconds[seconds.size() / 2], compute,
      exposed / options.steps, total, sent / (options.steps + 2));
  std::fflush(stdout);
}

}  // namespace carafe
