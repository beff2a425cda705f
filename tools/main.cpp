// The `carafe` program (also there as `caffe`): finds the subcommand, prints errors, returns the
// exit code. Under the name of a command it is that command: build/tools has links with the names
// of Caffe's tools.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/suggest.h"
#include "tools/command.h"

namespace carafe {
namespace {

constexpr char kVersion[] = "0.1.0";

constexpr char kExamples[] =
    "examples:\n"
    "  carafe train --solver=examples/mnist/lenet_solver.prototxt\n"
    "  mpirun -n 4 carafe train -solver examples/mnist/lenet_solver.prototxt\n"
    "  carafe check examples/mnist/lenet_solver.prototxt\n"
    "\n`carafe COMMAND --help` tells more about one command.";

// Caffe's flags may be written -flag value, --flag value, -flag=value or --flag=value; CLI11 wants
// two dashes.
std::vector<std::string> NormalizedArguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  const std::string program = std::filesystem::path(argc > 0 ? argv[0] : "").filename().string();
  if (CommandRegistry::Instance().Find(program) != nullptr) arguments.push_back(program);
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    const bool one_dash = argument.size() > 2 && argument[0] == '-' && argument[1] != '-' &&
                          std::isalpha(static_cast<unsigned char>(argument[1]));
    arguments.push_back(one_dash ? "-" + argument : argument);
  }
  return arguments;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// CLI11's complaint in our form, with the nearest flag or command.
int PrintUsageError(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  const CLI::App* used = &app;
  for (const CLI::App* sub : app.get_subcommands()) used = sub;
  std::string fix =
      fmt::format("see `{} --help`", used == &app ? "carafe" : "carafe " + used->get_name());
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const std::string& argument : arguments) {
      const std::string flag = argument.substr(0, argument.find('='));
      const auto names = OptionNames(*used);
      if (!flag.starts_with("--") || std::ranges::find(names, flag) != names.end()) continue;
      const auto near = NearestNames(flag, names, 1);
      what = fmt::format("unknown flag {}", flag);
      if (!near.empty()) fix = fmt::format("did you mean {}?", near[0]);
      break;
    }
  }
  fmt::print(stderr, "error: {}\n  fix: {}\n", what, fix);
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app{"Carafe trains Caffe networks on one machine or on a cluster.", "carafe"};
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("carafe ") + kVersion);
  app.require_subcommand(0, 1);
  std::map<const CLI::App*, std::function<int()>> runs;
  std::vector<std::string> names;
  for (const auto& [name, command] : CommandRegistry::Instance().entries()) {
    CLI::App* sub = app.add_subcommand(name, command.summary);
    if (!command.examples.empty()) sub->footer("examples:\n" + command.examples);
    runs[sub] = command.prepare(*sub);
    names.push_back(name);
  }
  const std::vector<std::string> arguments = NormalizedArguments(argc, argv);
  if (!arguments.empty() && !arguments[0].starts_with("-") &&
      CommandRegistry::Instance().Find(arguments[0]) == nullptr) {
    fmt::print(stderr, "error: unknown command \"{}\"\n  fix: {}\n", arguments[0],
               DidYouMean(arguments[0], names));
    return 1;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return PrintUsageError(app, error, arguments);
  }
  if (app.get_subcommands().empty()) {
    fmt::print("{}", app.help());
    return 0;
  }
  return runs.at(app.get_subcommands()[0])();
}

}  // namespace
}  // namespace carafe

int main(int argc, char** argv) {
  try {
    return carafe::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
