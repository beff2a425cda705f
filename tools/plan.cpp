// carafe plan: how a net would train on a cluster that is not at hand.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/base/units.h"
#include "carafe/train/algorithm_choice.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/forecast.h"
#include "carafe/train/placeholder_data.h"
#include "tools/command.h"
#include "tools/data_shape.h"
#include "tools/flags.h"
#include "tools/net_file.h"

namespace carafe {
namespace {

struct PlanOptions : RunOptions {
  int ranks = 64;
  std::string bandwidth = "10gbit", latency = "20us";
  int staleness = 3;
  std::string slow, profile, svg;
  int iterations = 5;
  bool json = false;
};

const OptionTable<PlanOptions>& PlanTable() {
  using O = PlanOptions;
  static const OptionTable<O> table({
      {{.name = "ranks", .help = "the largest number of ranks; rows are 1, 2, 4 .. of them"},
       option::Integer(&O::ranks, 1, 16384)},
      {{.name = "bandwidth",
        .help = "of every rank's line, each way: 10gbit, 100mbit, 1.1GB (bytes)"},
       option::Text(&O::bandwidth)},
      {{.name = "latency", .help = "of a message: 20us, 0.1ms"}, option::Text(&O::latency)},
      {{.name = "staleness", .help = "of the row ssp: iterations that a value may lag behind"},
       option::Integer(&O::staleness, 0, 64)},
      {{.name = "slow",
        .help = "stragglers, with commas: 1:2.0, one rank takes twice as long in every step; 5%:4, "
                "every rank takes four times as long in one step of twenty"},
       option::Text(&O::slow)},
      {{.name = "profile",
        .help = "times of this file, which carafe time --profile has written; default: measured on "
                "this machine"},
       option::Text(&O::profile)},
      {{.name = "iterations", .help = "passes to average over where this machine is measured"},
       option::Integer(&O::iterations, 1)},
      {{.name = "json", .help = "exact numbers as JSON"}, option::Switch(&O::json)},
      {{.name = "svg", .help = "write a plot, speed-up over ranks, to this file"},
       option::Text(&O::svg)},
      {RunTable().row("threads").info, RunTable().row("threads").value},
      {RunTable().row("level").info, RunTable().row("level").value},
      {RunTable().row("stage").info, RunTable().row("stage").value},
  });
  return table;
}

struct PlanFlags {
  std::string file;
  GivenOptions given;
  DataShapeFlag data_shape;
};

ForecastSettings SettingsOf(const PlanOptions& options) {
  return {.ranks = options.ranks,
          .bandwidth = ParseBandwidth(options.bandwidth, "--bandwidth"),
          .latency = ParseDuration(options.latency, "--latency"),
          .staleness = options.staleness,
          .slow = ParseStragglers(options.slow, "--slow")};
}

MachineProfile Measure(const NetSpec& spec, const NetState& state, const PlanOptions& options) {
  Group alone;
  const std::unique_ptr<Stream> stream =
      MakeStream(options.gpu, false, ChooseThreads(options.threads, alone), alone);
  Net<float> net(spec, state, AlgorithmChoices{.asked = options.algorithm});
  net.Initialise(*stream, 1);
  net.ShareMemory(MemorySharing::kTraining, std::make_shared<MemoryPool>());
  MeasureForAll(alone, *stream, options.algorithm, {&net});
  return MeasureProfile(*stream, net, TimeNet(*stream, net, options.iterations));
}

int RunPlan(const PlanFlags& flags) {
  const PlanOptions options = PlanTable().Parse(WithEnvironment(PlanTable().infos(), flags.given));
  const ForecastSettings settings = SettingsOf(options);
  flags.data_shape.Check();
  const SolverNet file = NetOfFile(flags.file, TRAIN, options);
  std::vector<std::string> notes;
  const NetSpec spec = WithPlaceholderData(file.spec, file.state, flags.data_shape.dims, &notes);
  MachineProfile profile;
  if (options.profile.empty()) {
    profile = Measure(spec, file.state, options);
  } else {
    profile = ReadProfile(options.profile);
    CheckProfile(profile, options.profile, Net<float>(spec, file.state), flags.file);
  }
  const Forecast forecast = MakeForecast(profile, settings);
  fmt::print("{}", options.json ? ForecastJson(profile, settings, forecast)
                                : ForecastTable(profile, settings, forecast));
  for (const std::string& note : notes)
    if (options.profile.empty())
      fmt::print(options.json ? stderr : stdout, "measured without data: {}\n", note);
  if (!options.svg.empty())
    WriteFileAtomically(options.svg, ForecastSvg(profile, settings, forecast));
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "plan",
     .summary = "Forecast the training of a net on a cluster, for each exchange.",
     .examples =
         "  carafe plan examples/mnist/lenet_train_test.prototxt --ranks 64 --bandwidth 10gbit\n"
         "  carafe time --model=net.prototxt --profile=node.json\n"
         "  carafe plan net.prototxt --profile node.json --ranks 1024 --bandwidth 100gbit "
         "--latency 5us --svg plan.svg\n"
         "  carafe plan net.prototxt --ranks 16 --slow 1:2.0 --staleness 3 --json",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<PlanFlags>();
       app.add_option("file", flags->file, "prototxt of a net or solver")->required();
       DeclareFlags(app, PlanTable().infos(), &flags->given);
       flags->data_shape.Declare(app);
       return [flags] { return RunPlan(*flags); };
     }}};

}  // namespace
}  // namespace carafe
