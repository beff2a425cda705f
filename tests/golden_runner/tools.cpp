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

}  // namespace

void RunTool(const Case& c, const std::string& tool, const std::vector<std::string>& args) {
  const std::filesystem::path path = std::filesystem::path(c.options.tools) / tool;
  if (!std::filesystem::exists(path)) throw Missing({fmt::format("tool {}", tool)});
  std::string command = Quoted(path.string());
  for (const std::string& arg : args) command += fmt::format(" {}", Quoted(arg));
  command += " > tool.log 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(fmt::format("{} failed: {}", tool, ReadFile("tool.log")));
  }
}

}  // namespace carafe::golden
