// carafe summary: a net's shapes and costs, layer by layer.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/file.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/train/check.h"
#include "carafe/train/data_stand_in.h"
#include "carafe/train/summary.h"
#include "tools/command.h"
#include "tools/data_shape.h"
#include "tools/run_flags.h"

namespace carafe {
namespace {

struct SummaryFlags {
  std::string file, phase = "TRAIN", stage;
  int level = 0;
  bool json = false;
  DataShapeFlag data_shape;
};

// The net of the file: a net's own, or the train or first test net of a solver.
SolverNet NetOf(const SummaryFlags& flags) {
  const std::vector<std::string> stages = SplitList(flags.stage);
  const std::string text = ReadFile(flags.file);
  if (!LooksLikeNet(text)) {
    const SolverSpec solver = ParseSolverSpec(text, flags.file);
    if (flags.phase == "TRAIN") return TrainNetOf(solver, flags.level, stages);
    const std::vector<SolverNet> tests = TestNetsOf(solver, flags.level, stages);
    if (!tests.empty()) return tests[0];
    throw ConfigError(flags.file + " has no test net", "use --phase=TRAIN");
  }
  SolverNet net{ParseNetSpec(text, flags.file), {}};
  net.state = net.spec.param.state();
  net.state.set_phase(flags.phase == "TRAIN" ? TRAIN : TEST);
  net.state.set_level(flags.level);
  for (const std::string& stage : stages) net.state.add_stage(stage);
  return net;
}

int Summary(const SummaryFlags& flags) {
  CheckPhase(flags.phase);
  flags.data_shape.Check();
  const SolverNet file = NetOf(flags);
  std::vector<std::string> notes;
  const Net<float> net(
      WithStandInsForMissingData(file.spec, file.state, flags.data_shape.dims, &notes), file.state);
  const NetSummary summary = Summarize(net);
  fmt::print("{}", flags.json ? SummaryJson(summary) : SummaryTable(summary));
  for (const std::string& note : notes) {
    fmt::print(flags.json ? stderr : stdout, "without data: {}\n", note);
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
       app.add_flag("--json", flags->json, "exact numbers as JSON");
       app.add_option("--phase", flags->phase, "TRAIN or TEST")->capture_default_str();
       app.add_option("--level", flags->level, "net level, for layers with min_level or max_level");
       app.add_option("--stage", flags->stage, "net stages, with commas");
       flags->data_shape.Declare(app);
       return [flags] { return Summary(*flags); };
     }}};

}  // namespace
}  // namespace carafe
