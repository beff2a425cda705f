// carafe check: judges a net or solver file at once, without running it.
#include <fmt/format.h>

#include <memory>

#include "carafe/train/check.h"
#include "tools/command.h"
#include "tools/data_shape.h"

namespace carafe {
namespace {

struct CheckFlags {
  std::vector<std::string> files;
  DataShapeFlag data_shape;
};

int Check(const CheckFlags& flags) {
  flags.data_shape.Check();
  for (const std::string& file : flags.files) {
    const CheckReport report = CheckFile(file, flags.data_shape.dims);
    fmt::print("{}: this {} is fine\n", file, report.kind);
    for (const std::string& line : report.lines) fmt::print("  {}\n", line);
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "check",
     .summary = "Judge a net or solver file without running it.",
     .examples = "  carafe check examples/mnist/lenet_solver.prototxt",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<CheckFlags>();
       app.add_option("files", flags->files, "prototxts of nets or solvers")->required();
       flags->data_shape.Declare(app);
       return [flags] { return Check(*flags); };
     }}};

}  // namespace
}  // namespace carafe
