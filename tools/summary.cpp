// carafe summary: a net's shapes and costs, layer by layer.
#include <fmt/format.h>

#include <memory>

#include "carafe/train/options.h"
#include "carafe/train/placeholder_data.h"
#include "carafe/train/summary.h"
#include "tools/command.h"
#include "tools/data_shape.h"
#include "tools/flags.h"
#include "tools/net_file.h"

namespace carafe {
namespace {

// Flags of the table, a file and a data shape, which tables do not describe.
struct SummaryOptions : RunOptions {
  Phase phase = TRAIN;
  bool json = false;
};

const OptionTable<SummaryOptions>& SummaryTable() {
  using O = SummaryOptions;
  static const OptionTable<O> table({
      {{.name = "phase", .help = "the phase of the net"},
       option::Choice(&O::phase, {"TRAIN", "TEST"})},
      {{.name = "json", .help = "exact numbers as JSON"}, option::Switch(&O::json)},
      {RunTable().row("level").info, RunTable().row("level").value},
      {RunTable().row("stage").info, RunTable().row("stage").value},
  });
  return table;
}

struct SummaryFlags {
  std::string file;
  GivenOptions given;
  DataShapeFlag data_shape;
};

int Summary(const SummaryFlags& flags) {
  const SummaryOptions options = SummaryTable().Parse(flags.given);
  flags.data_shape.Check();
  const SolverNet file = NetOfFile(flags.file, options.phase, options);
  std::vector<std::string> notes;
  const Net<float> net(WithPlaceholderData(file.spec, file.state, flags.data_shape.dims, &notes),
                       file.state);
  const NetSummary summary = Summarize(net);
  fmt::print("{}", options.json ? SummaryJson(summary) : SummaryTable(summary));
  for (const std::string& note : notes) {
    fmt::print(options.json ? stderr : stdout, "without data: {}\n", note);
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "summary",
     .summary = "Show a net's shapes, parameters, multiply-adds, memory and traffic.",
     .examples = "  carafe summary models/resnet50/deploy.prototxt\n"
                 "  carafe summary examples/mnist/lenet_solver.prototxt --data_shape=1,28,28",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<SummaryFlags>();
       app.add_option("file", flags->file, "prototxt of a net or solver")->required();
       DeclareFlags(app, SummaryTable().infos(), &flags->given);
       flags->data_shape.Declare(app);
       return [flags] { return Summary(*flags); };
     }}};

}  // namespace
}  // namespace carafe
