// The `carafe` program (also there as `caffe`): finds the subcommand, prints errors, returns the
// exit code. Under the name of a command it is that command: build/tools has links with the names
// of Caffe's tools.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/suggest.h"
#include "carafe/comm/launcher.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/glog_flags.h"

namespace carafe {
namespace {

constexpr char kVersion[] = "0.1.0";

constexpr char kExamples[] =
    "examples:\n"
    "  carafe train --solver=examples/mnist/lenet_solver.prototxt\n"
    "  mpirun -n 4 carafe train -solver examples/mnist/lenet_solver.prototxt\n"
    "  carafe check examples/mnist/lenet_solver.prototxt\n"
    "\n`carafe COMMAND --help` explains one command.";

// Caffe's flags may be written -flag value, --flag value, -flag=value or --flag=value; CLI11
// requires two dashes.
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

// The first argument that is no flag of the command, or "". What follows a -- is not ours.
std::string UnknownFlag(const std::vector<std::string>& known,
                        const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.starts_with("--") && std::ranges::find(known, flag) == known.end()) return flag;
  }
  return "";
}

// CLI11's complaint in our form. A misspelt flag comes first: it is often why another is missing.
int PrintUsageError(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments) {
  const CLI::App* used = &app;
  for (const CLI::App* sub : app.get_subcommands()) used = sub;
  std::string what = error.what();
  std::string fix =
      fmt::format("see `{} --help`", used == &app ? "carafe" : "carafe " + used->get_name());
  const std::vector<std::string> known = OptionNames(*used);
  if (const std::string flag = UnknownFlag(known, arguments); !flag.empty()) {
    what = fmt::format("unknown flag {}", flag);
    const std::vector<std::string> near = NearestNames(flag, known, 1);
    if (!near.empty()) fix = fmt::format("did you mean {}?", near[0]);
  }
  fmt::print(stderr, "error: {}\n  fix: {}\n", what, fix);
  return 1;
}

// Declares the command's flags; returns what runs it after they are parsed.
std::function<int()> Prepare(const Command& command, CLI::App& app) {
  if (!command.run) return command.prepare(app);
  const auto given = std::make_shared<GivenOptions>();
  DeclareFlags(app, command.options(), given.get());
  return [&command, given] { return command.run(*given); };
}

// A command that does not divide its work would do it once per rank, into the same files.
bool RunsHere(const std::string& command) {
  Launch launch;
  try {
    launch = DetectLaunch();
  } catch (const ConfigError&) {  // of a launcher without MPI, which is not needed here
    return true;
  }
  if (launch.rank != 0) return false;
  if (launch.size <= 1) return true;
  LogInfo("{} was started by {}: it is no distributed command, and rank 0 alone runs it", command,
          launch.launcher);
  return true;
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
    runs[sub] = Prepare(command, *sub);
    names.push_back(name);
  }
  std::vector<std::string> arguments = NormalizedArguments(argc, argv);
  if (!arguments.empty() && arguments[0] != "launch")  // hands them on
    TakeGlogFlags(std::filesystem::path(argv[0]).filename().string(), &arguments);
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
  const CLI::App* chosen = app.get_subcommands()[0];
  if (!CommandRegistry::Instance().Find(chosen->get_name())->on_ranks &&
      !RunsHere(chosen->get_name())) {
    return 0;
  }
  return runs.at(chosen)();
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
