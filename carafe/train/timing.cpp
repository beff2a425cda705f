#include "carafe/train/timing.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "carafe/base/log.h"
#include "carafe/base/timer.h"

namespace carafe {

namespace {

// Adds up what the net says of its layers as it runs: whole passes, so that fused layers are.
class LayerTimes final : public Trace {
 public:
  LayerTimes(Stream& stream, NetTime* result) : stream_(stream) {
    for (LayerTime& layer : result->layers) by_name_.insert({layer.name, &layer});
  }
  void Begin(std::string_view category, std::string_view name) override {
    const auto found = by_name_.find(name);
    spans_.push_back({found == by_name_.end()  ? nullptr
                      : category == "forward"  ? &found->second->forward_ms
                      : category == "backward" ? &found->second->backward_ms
                                               : nullptr,
                      Timer()});
  }
  void End() override {
    const Span span = spans_.back();
    spans_.pop_back();
    if (span.ms == nullptr) return;
    stream_.Synchronize();
    *span.ms += span.timer.Seconds() * 1000;
  }

 private:
  struct Span {
    double* ms;
    Timer timer;
  };
  Stream& stream_;
  std::map<std::string_view, LayerTime*> by_name_;
  std::vector<Span> spans_;  // layers may have spans of their own
};

}  // namespace

NetTime TimeNet(Stream& stream, Net<float>& net, int iterations) {
  NetTime result;
  for (const auto& layer : net.layers()) {
    result.layers.push_back({.name = layer->name(), .type = layer->spec().param().type()});
  }
  RunContext run{.stream = stream};
  net.Forward(run);
  net.Backward(run);
  LayerTimes times(stream, &result);
  run.trace = &times;
  const Timer total;
  for (int i = 0; i < iterations; ++i) {
    ++run.pass.index;
    const Timer forward;
    net.Forward(run);
    stream.Synchronize();
    result.forward_ms += forward.Seconds() * 1000 / iterations;
    const Timer backward;
    net.Backward(run);
    stream.Synchronize();
    result.backward_ms += backward.Seconds() * 1000 / iterations;
  }
  result.total_ms = total.Seconds() * 1000;
  result.both_ms = result.total_ms / iterations;
  for (LayerTime& layer : result.layers) {
    layer.forward_ms /= iterations;
    layer.backward_ms /= iterations;
  }
  return result;
}

void LogNetTime(const NetTime& time, int iterations) {
  LogInfo("*** Benchmark begins ***");
  LogInfo("Testing for {} iterations.", iterations);
  LogInfo("Average time per layer: ");
  for (const LayerTime& layer : time.layers) {
    LogInfo("{:>10}\tforward: {:g} ms.", layer.name, layer.forward_ms);
    LogInfo("{:>10}\tbackward: {:g} ms.", layer.name, layer.backward_ms);
  }
  LogInfo("Average Forward pass: {:g} ms.", time.forward_ms);
  LogInfo("Average Backward pass: {:g} ms.", time.backward_ms);
  LogInfo("Average Forward-Backward: {:g} ms.", time.both_ms);
  LogInfo("Total Time: {:g} ms.", time.total_ms);
  LogInfo("*** Benchmark ends ***");
}

}  // namespace carafe
