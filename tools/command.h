// A subcommand of the `carafe` program: registered by its own .cpp, dispatched by main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "carafe/base/registry.h"

namespace carafe {

struct Command {
  std::string name;
  std::string summary;
  std::string examples;  // shown at the end of --help
  // Declares the flags and returns what runs once they are parsed; its result is the exit code.
  std::function<std::function<int()>(CLI::App&)> prepare;
};

using CommandRegistry = Registry<Command>;

struct RegisterCommand {
  explicit RegisterCommand(const Command& command) {
    CommandRegistry::Instance().Add(command.name, command);
  }
};

}  // namespace carafe
