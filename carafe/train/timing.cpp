#include "carafe/train/timing.h"

#include <fmt/format.h>

#include "carafe/base/log.h"
#include "carafe/base/timer.h"

namespace carafe {

NetTime TimeNet(Stream& stream, Net<float>& net, int iterations) {
  NetTime result;
  const size_t count = net.layers().size();
  result.layers.resize(count);
  for (size_t l = 0; l < count; ++l) {
    result.layers[l].name = net.layers()[l]->name();
    result.layers[l].type = net.layers()[l]->spec().param().type();
  }
  RunContext run{.stream = stream};
  net.Forward(run);
  net.Backward(run);
  Timer total;
  for (int i = 0; i < iterations; ++i) {
    ++run.pass.index;
    Timer forward;
    for (size_t l = 0; l < count; ++l) {
      const Timer timer;
      net.ForwardFromTo(run, static_cast<int>(l), static_cast<int>(l));
      stream.Synchronize();
      result.layers[l].forward_ms += timer.Seconds() * 1000 / iterations;
    }
    const double forward_seconds = forward.Seconds();
    Timer backward;
    for (size_t l = count; l-- > 0;) {
      const Timer timer;
      net.BackwardFromTo(run, static_cast<int>(l), static_cast<int>(l));
      stream.Synchronize();
      result.layers[l].backward_ms += timer.Seconds() * 1000 / iterations;
    }
    result.forward_ms += forward_seconds * 1000 / iterations;
    result.backward_ms += backward.Seconds() * 1000 / iterations;
  }
  result.total_ms = total.Seconds() * 1000;
  result.both_ms = result.total_ms / iterations;
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
