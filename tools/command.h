// A subcommand of the `carafe` program: registered by its own .cpp, dispatched by main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "carafe/base/option_table.h"
#include "carafe/base/registry.h"

namespace carafe {

// The flags are either the rows of a table (`options` and `run`), which `carafe options` documents,
// or declared by `prepare`.
struct Command {
  std::string name;
  std::string summary;
  std::string examples;  // shown at the end of --help
  // Declares the flags and returns what runs once they are parsed; its result is the exit code.
  std::function<std::function<int()>(CLI::App&)> prepare = {};
  std::function<std::vector<OptionInfo>()> options = {};
  std::function<int(const GivenOptions&)> run = {};  // returns the exit code
  bool on_ranks = false;  // all ranks of a launcher work together; else rank 0 alone runs it
};

using CommandRegistry = Registry<Command>;

struct RegisterCommand {
  explicit RegisterCommand(const Command& command) {
    CommandRegistry::Instance().Add(command.name, command);
  }
};

}  // namespace carafe
