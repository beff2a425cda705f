#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "benchmarks/exchange/modes.h"
#include "carafe/base/error.h"
#include "carafe/base/timer.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/core/blob.h"
#include "carafe/exchange/polled_engine.h"
#include "carafe/exchange/scheme.h"

namespace carafe {
namespace {

float Part(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 32); }

}  // namespace

void RunSums(Group& group, const SumsOptions& given) {
  if (group.size() == 1)
    throw ConfigError("one rank has nothing to sum", "start this with mpirun -n 2, or more");
  SumsOptions options = given;
  if (options.scheme.message_bytes == 0)
    options.scheme.message_bytes =
        MessageBytesFor(MeasureSumCost(group, options.exchange, options.scheme));
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    // As the arenas of a net are: neighbours read gradients where they lie.
    Stream stream;
    Buffer gradients(group.shares_memory() ? BufferUse::kShareable : BufferUse::kOwn);
    auto* const gradient =
        static_cast<float*>(gradients.Get(stream, static_cast<size_t>(count) * sizeof(float)));
    std::vector<float> value(static_cast<size_t>(count));
    // Sums alone, as MPI_Allreduce makes them: without the votes that end a step of training.
    const Scheme& scheme = FindScheme(options.exchange);
    const bool updates = scheme.UpdatesOn(group.rank());
    SchemeSettings settings = options.scheme;
    if (!settings.hosts.known()) settings.hosts = HostLayout(group.thread()->hosts());
    const ElementType& elements = ElementsOf<float>();
    PolledEngine engine(
        *group.thread(), elements,
        TransfersOf(scheme, settings, group.rank(), group.size(), elements,
                    {{.gradient = gradient, .value = value.data(), .count = count}}));
    int64_t steps = 0;
    const auto step = [&] {
      engine.Start(0, updates ? 0 : 1, Progress::kByCaller);
      ++steps;
      engine.Await(
          "the sum", [&] { return engine.steps(0) >= steps; }, Progress::kByCaller);
      if (updates && scheme.root_updates) engine.Start(1);
      if (scheme.root_updates) engine.Await("values", [&] { return engine.steps(1) >= steps; });
    };
    // The first one is checked, and not timed.
    for (int64_t i = 0; i < count; ++i) gradient[i] = Part(group.rank(), i);
    step();
    int64_t wrong = 0;
    if (options.exchange == "allreduce")
      for (int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0; r < group.size(); ++r) sum += Part(r, i);
        wrong += gradient[i] != sum;
      }
    std::fill(gradient, gradient + count, 0.f);
    // As many rounds as rank 0 finds right for the time.
    const Timer trial;
    for (int i = 0; i < 3; ++i) step();
    int64_t rounds =
        std::clamp<int64_t>(static_cast<int64_t>(options.seconds * 3 / trial.Seconds()), 7, 2000);
    group.Broadcast(&rounds, sizeof rounds, 0, "the number of rounds");
    std::vector<double> seconds;
    for (int64_t i = 0; i < rounds; ++i) {
      const Timer timer;
      step();
      seconds.push_back(timer.Seconds());
    }
    engine.Close();
    std::sort(seconds.begin(), seconds.end());
    if (group.rank() != 0) continue;
    fmt::print(
        "{{\"bytes\": {}, \"best\": {:.9f}, \"median\": {:.9f}, \"rounds\": {}, \"wrong\": {}}}\n",
        bytes, seconds.front(), seconds[seconds.size() / 2], rounds, wrong);
    std::fflush(stdout);
  }
}

}  // namespace carafe
