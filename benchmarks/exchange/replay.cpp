#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "benchmarks/exchange/modes.h"
#include "carafe/base/timer.h"

namespace carafe {
namespace {

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

void RunReplay(Group& group, const ReplayOptions& given) {
  ReplayOptions options = given;
  if (options.scheme.message_bytes == 0)
    options.scheme.message_bytes =
        MessageBytesFor(MeasureSumCost(group, options.exchange, options.scheme));
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
  Stream stream;
  const auto exchange = MakeExchange<float>(
      options.exchange, {.group = group,
                         .params = params,
                         .update = [](int, Stream&) {},
                         .bucket_bytes = static_cast<size_t>(options.bucket_mb * 1048576),
                         .overlap = options.overlap,
                         .scheme = options.scheme});
  std::vector<double> seconds;
  double exposed = 0;
  int64_t sent = 0;
  for (int step = -2; step < options.steps; ++step) {  // two to warm up
    const ExchangeStats before = exchange->stats();
    const Timer timer;
    for (size_t l = 0; l < layers.size(); ++l) {
      for (int p : params_of[l]) exchange->AwaitValue(0, p, stream);
      Sleep(layers[l].forward);
    }
    for (size_t l = layers.size(); l-- > 0;) {
      Sleep(layers[l].backward);
      for (int p : params_of[l]) exchange->GradientReady(0, p, stream);
    }
    exchange->FinishStep({});
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
