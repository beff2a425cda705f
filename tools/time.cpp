// carafe time: milliseconds per layer.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/base/process_memory.h"
#include "carafe/net/plan.h"
#include "carafe/train/algorithm_choice.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/options.h"
#include "carafe/train/profile.h"
#include "carafe/train/timing.h"
#include "tools/command.h"

namespace carafe {
namespace {

enum class TimePlan { kNone, kExplain };

struct TimeOptions : RunOptions {
  std::string model;
  Phase phase = TRAIN;
  int iterations = 50;
  TimePlan plan = TimePlan::kNone;
  std::string profile;
};

const OptionTable<TimeOptions>& TimeTable() {
  using O = TimeOptions;
  static const OptionTable<O> table(
      {
          {{.name = "model", .section = "Model", .help = "the net's prototxt", .required = true},
           option::Text(&O::model)},
          {{.name = "phase", .section = "Model", .help = "the phase of the net"},
           option::Choice(&O::phase, {"TRAIN", "TEST"})},
          {{.name = "iterations", .section = "Model", .help = "passes to average over"},
           option::Integer(&O::iterations, 1)},
          {{.name = "plan",
            .section = "Model",
            .help = "explain: print instead, per layer, algorithms, formats, fusions and the best "
                    "time of --iterations runs"},
           option::Choice(&O::plan, {"none", "explain"})},
          {{.name = "profile",
            .section = "Model",
            .help = "write the profile of this machine, for carafe plan, to this file (JSON)"},
           option::Text(&O::profile)},
      },
      RunTable());
  return table;
}

int Time(const GivenOptions& flags) {
  const TimeOptions options = TimeTable().Parse(WithEnvironment(TimeTable().infos(), flags));
  if (!options.profile.empty() && (options.phase != TRAIN || options.plan == TimePlan::kExplain))
    throw ConfigError("--profile is for the passes of training",
                      "remove --phase and --plan, or remove --profile");
  Group alone;
  const std::unique_ptr<Stream> stream =
      MakeStream(options.gpu, false, ChooseThreads(options.threads, alone), alone);
  Net<float> net(LoadNetSpec(options.model), StateOf(options.phase, options),
                 AlgorithmChoices{.asked = options.algorithm});
  net.Initialise(*stream, 1);
  net.ShareMemory(MemorySharing::kTraining, std::make_shared<MemoryPool>());
  MeasureForAll(alone, *stream, options.algorithm, {&net});
  if (options.plan == TimePlan::kExplain) {
    fmt::print("{}", ExplainPlan(*stream, net, options.iterations));
    return 0;
  }
  const NetTime time = TimeNet(*stream, net, options.iterations);
  LogNetTime(time, options.iterations);
  for (const std::string& line : MemoryLines(net)) LogInfo("{}", line);
  constexpr double kMiB = 1 << 20;
  LogInfo("Peak memory of the process: {:.1f} MiB",
          static_cast<double>(PeakResidentBytes()) / kMiB);
  if (!options.profile.empty()) {
    WriteFileAtomically(options.profile, ProfileJson(MeasureProfile(*stream, net, time)));
    LogInfo("The profile of this machine is in {}", options.profile);
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "time",
     .summary = "Time a net, layer by layer.",
     .examples = "  carafe time --model=lenet_train_test.prototxt --iterations=20\n"
                 "  carafe time --model=lenet_train_test.prototxt --profile=lenet.json",
     .options = [] { return TimeTable().infos(); },
     .run = Time}};

}  // namespace
}  // namespace carafe
