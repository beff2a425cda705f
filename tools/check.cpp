// carafe check: validates a net or solver file without running it.
#include <fmt/format.h>

#include <memory>

#include "carafe/train/check.h"
#include "tools/command.h"
#include "tools/data_shape.h"

namespace carafe {
namespace {

struct CheckFlags {
  std::vector<std::string> files, stages;
  std::string phase;
  DataShapeFlag data_shape;
};

int Check(const CheckFlags& flags) {
  flags.data_shape.Check();
  CheckSettings settings{.data_shape = flags.data_shape.dims, .phase = {}, .stages = flags.stages};
  if (!flags.phase.empty()) settings.phase = flags.phase == "TRAIN" ? TRAIN : TEST;
  for (const std::string& file : flags.files) {
    const CheckReport report = CheckFile(file, settings);
    fmt::print("{}: this {} is fine\n", file, report.kind);
    for (const std::string& line : report.lines) fmt::print("  {}\n", line);
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "check",
     .summary = "Validate a net or solver file without running it.",
     .examples = "  carafe check examples/mnist/lenet_solver.prototxt",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<CheckFlags>();
       app.add_option("files", flags->files, "prototxts of nets or solvers")->required();
       flags->data_shape.Declare(app);
       app.add_option("--phase", flags->phase, "of a net: build this phase alone")
           ->check(CLI::IsMember({"TRAIN", "TEST"}));
       app.add_option("--stage", flags->stages, "of a net: build it with these stages alone")
           ->delimiter(',');
       return [flags] { return Check(*flags); };
     }}};

}  // namespace
}  // namespace carafe
