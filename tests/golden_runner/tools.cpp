#include "tools.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <stdexcept>

#include "carafe/base/file.h"

namespace carafe::golden {
namespace {

std::string Quoted(const std::string& word) {
  static const std::regex quote("'");
  return fmt::format("'{}'", std::regex_replace(word, quote, R"('\'')"));
}

// A program of that name, or a command of `carafe`; "" if neither is there.
std::string CommandFor(const std::filesystem::path& folder, const std::string& tool) {
  if (std::filesystem::exists(folder / tool)) return Quoted((folder / tool).string());
  if (!std::filesystem::exists(folder / "carafe")) return "";
  const std::string command =
      fmt::format("{} {}", Quoted((folder / "carafe").string()), Quoted(tool));
  const bool known = std::system(fmt::format("{} --help > tool.log 2>&1", command).c_str()) == 0;
  return known ? command : "";
}

}  // namespace

void RunTool(const Case& c, const std::string& tool, const std::vector<std::string>& args) {
  std::string command = CommandFor(c.options.tools, tool);
  if (command.empty())
    throw std::runtime_error(
        fmt::format("there is no tool {} in {}: build carafe_program", tool, c.options.tools));
  for (const std::string& arg : args) command += fmt::format(" {}", Quoted(arg));
  command += " > tool.log 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(fmt::format("{} failed: {}", tool, ReadFile("tool.log")));
  }
}

}  // namespace carafe::golden
