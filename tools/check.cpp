// carafe check: judges a net or solver file at once, without running it.
#include <fmt/format.h>

#include <memory>

#include "carafe/train/check.h"
#include "tools/command.h"

namespace carafe {
namespace {

int Check(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const CheckReport report = CheckFile(file);
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
       auto files = std::make_shared<std::vector<std::string>>();
       app.add_option("files", *files, "prototxts of nets or solvers")->required();
       return [files] { return Check(*files); };
     }}};

}  // namespace
}  // namespace carafe
