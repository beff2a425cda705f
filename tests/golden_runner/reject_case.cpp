// Kind "reject": what must be refused, with an error of its kind: building, or where stated
// loading, running or stepping.
#include <fmt/format.h>

#include "carafe/net/weights.h"
#include "carafe/solvers/solver.h"
#include "nets.h"

namespace carafe::golden {
namespace {

void BuildSolver(const Case& c, Stream& stream) {
  const SolverSpec spec = LoadSolverSpec(c.Text("path"));
  RequireLayerTypes(TrainNetOf(spec).spec.param);
  Solver<float> solver(spec, stream, SolverOptions{.algorithms = Algorithms()});
  for (const std::string& weights : spec.param.weights()) {
    LoadWeights(stream, weights, solver.net());
  }
  if (!c.Has("run")) return;
  Group group;
  solver.Connect("allreduce", group, {.bucket_bytes = size_t{1} << 16});
  solver.Step();
  solver.Drain();
}

void BuildNet(const Case& c, Stream& stream) {
  const NetSpec spec = LoadNetSpec(c.Text("path"));
  RequireLayerTypes(spec.param);
  Net<float> net(spec, StateOf(spec, PhaseOf(c, 0)), Algorithms());
  net.Initialise(stream, /*seed=*/1);
  if (c.Has("weights")) LoadWeights(stream, c.Text("weights"), net);
  RunContext run{.stream = stream};
  if (c.Has("run")) net.Forward(run);
  if (c.Get<std::string>("run", "") == "backward") net.Backward(run);
}

}  // namespace

void RunReject(const Case& c, Report& report) {
  Stream stream(c.options.device(), c.options.threads);
  try {
    if (c.Get("solver", false)) {
      BuildSolver(c, stream);
    } else {
      BuildNet(c, stream);
    }
  } catch (const InternalError& error) {
    report.Check(false, fmt::format("refused as if it were our own bug: {}", error.what()));
    return;
  } catch (const Error& error) {
    if (std::string(error.what()).find("this version") != std::string::npos ||
        std::string(error.what()).find("this build") != std::string::npos) {
      throw;
    }
    report.Check(true, "");
    return;
  }
  report.Check(false, fmt::format("was accepted, though {}", c.Get<std::string>("why", "")));
}

}  // namespace carafe::golden
