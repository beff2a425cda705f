// carafe time: milliseconds per layer.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/log.h"
#include "carafe/base/process_memory.h"
#include "carafe/net/plan.h"
#include "carafe/train/algorithm_choice.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/timing.h"
#include "tools/command.h"
#include "tools/run_flags.h"

namespace carafe {
namespace {

struct TimeFlags {
  std::string model, phase = "TRAIN", plan;
  int iterations = 50;
  RunFlags run;
};

int Time(const TimeFlags& flags) {
  CheckPhase(flags.phase);
  if (flags.iterations <= 0) {
    throw ConfigError(fmt::format("--iterations is {}", flags.iterations), "give at least 1");
  }
  const Group alone;
  const std::unique_ptr<Stream> stream =
      MakeStream(flags.run.gpu, false, ChooseThreads(flags.run.threads, alone), alone);
  NetState state;
  state.set_phase(flags.phase == "TRAIN" ? TRAIN : TEST);
  state.set_level(flags.run.level);
  for (const std::string& stage : flags.run.Stages()) state.add_stage(stage);
  if (!flags.plan.empty() && flags.plan != "explain") {
    throw ConfigError(fmt::format("--plan is \"{}\"", flags.plan), "use --plan=explain");
  }
  Net<float> net(LoadNetSpec(flags.model), state);
  net.Initialise(*stream, 1);
  net.ShareMemory(MemorySharing::kTraining, std::make_shared<MemoryPool>());
  Group self;
  MeasureForAll(self, *stream, {&net});
  if (!flags.plan.empty()) {
    fmt::print("{}", ExplainPlan(*stream, net, flags.iterations));
    return 0;
  }
  LogNetTime(TimeNet(*stream, net, flags.iterations), flags.iterations);
  for (const std::string& line : MemoryLines(net)) LogInfo("{}", line);
  constexpr double kMiB = 1 << 20;
  LogInfo("Peak memory of the process: {:.1f} MiB",
          static_cast<double>(PeakResidentBytes()) / kMiB);
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "time",
     .summary = "Time a net, layer by layer.",
     .examples = "  carafe time --model=lenet_train_test.prototxt --iterations=20",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<TimeFlags>();
       app.add_option("--model", flags->model, "the net's prototxt")->required();
       app.add_option("--phase", flags->phase, "TRAIN or TEST")->capture_default_str();
       app.add_option("--iterations", flags->iterations, "passes to average over")
           ->capture_default_str();
       app.add_option("--plan", flags->plan,
                      "explain: print instead, per layer, algorithms, formats, fusions and the "
                      "best of so many runs");
       flags->run.Declare(app);
       return [flags] { return Time(*flags); };
     }}};

}  // namespace
}  // namespace carafe
