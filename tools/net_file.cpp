#include "tools/net_file.h"

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/train/check.h"

namespace carafe {

SolverNet NetOfFile(const std::string& file, Phase phase, const RunOptions& options) {
  const std::string text = ReadFile(file);
  if (!LooksLikeNet(text)) {
    const SolverSpec solver = ParseSolverSpec(text, file);
    if (phase == TRAIN) return TrainNetOf(solver, options.level, options.stages);
    const std::vector<SolverNet> tests = TestNetsOf(solver, options.level, options.stages);
    if (!tests.empty()) return tests[0];
    throw ConfigError(file + " has no test net", "use --phase=TRAIN");
  }
  SolverNet net{ParseNetSpec(text, file), {}};
  net.state = net.spec.param.state();
  net.state.MergeFrom(StateOf(phase, options));
  return net;
}

}  // namespace carafe
