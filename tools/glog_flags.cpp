#include "tools/glog_flags.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/second_log_file.h"

namespace carafe {
namespace {

// By name: whether it is a bool, which needs no value and may be written --noNAME.
const std::map<std::string, bool>& GlogFlags() {
  static const std::map<std::string, bool> flags = {
      {"minloglevel", false},     {"log_dir", false},
      {"stderrthreshold", false}, {"v", false},
      {"vmodule", false},         {"logtostderr", true},
      {"alsologtostderr", true},  {"colorlogtostderr", true}};
  return flags;
}

struct Flag {
  std::string name;
  std::optional<std::string> value;
};

// None: the argument is no flag of glog's.
std::optional<Flag> ParseFlag(const std::string& argument) {
  if (!argument.starts_with("--")) return std::nullopt;
  const size_t equal = argument.find('=');
  Flag flag{.name = argument.substr(2, equal == std::string::npos ? equal : equal - 2),
            .value = {}};
  if (equal != std::string::npos) flag.value = argument.substr(equal + 1);
  if (GlogFlags().contains(flag.name)) return flag;
  if (!flag.name.starts_with("no")) return std::nullopt;
  const auto found = GlogFlags().find(flag.name.substr(2));
  return found != GlogFlags().end() && found->second ? std::optional(flag) : std::nullopt;
}

void SetLeastLevel(const std::string& text) {
  int level = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
  if (error != std::errc() || end != text.data() + text.size() || level < 0 || level > 3) {
    throw ConfigError(fmt::format("minloglevel is \"{}\"", text),
                      "give 0 (all lines), 1 (warnings and errors), 2 or 3 (errors)");
  }
  SetLogLevel(level == 0 ? LogLevel::kInfo : level == 1 ? LogLevel::kWarning : LogLevel::kError);
}

// FOLDER/PROGRAM.HOST.USER.log.INFO.DATE-TIME.PID, and a link PROGRAM.INFO to the newest.
void LogInto(const std::string& folder, const std::string& program) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const char* user = std::getenv("USER");
  const std::string name =
      fmt::format("{}.{}.{}.log.INFO.{:%Y%m%d-%H%M%S}.{}", program, host,
                  user == nullptr ? "unknown" : user, fmt::localtime(std::time(nullptr)), getpid());
  SetSecondLogFile(folder + "/" + name);
  std::error_code ignored;  // the link is a convenience
  const std::filesystem::path link = std::filesystem::path(folder) / (program + ".INFO");
  std::filesystem::remove(link, ignored);
  std::filesystem::create_symlink(name, link, ignored);
}

}  // namespace

void TakeGlogFlags(const std::string& program, std::vector<std::string>* arguments) {
  std::map<std::string, std::string> given;
  for (const char* name : {"minloglevel", "log_dir"}) {
    const char* value = std::getenv((std::string("GLOG_") + name).c_str());
    if (value != nullptr) given[name] = value;
  }
  std::vector<std::string> others;
  for (size_t i = 0; i < arguments->size(); ++i) {
    const std::string& argument = (*arguments)[i];
    if (argument == "--") {  // what follows is for another program
      others.insert(others.end(), arguments->begin() + static_cast<std::ptrdiff_t>(i),
                    arguments->end());
      break;
    }
    std::optional<Flag> flag = ParseFlag(argument);
    if (!flag) {
      others.push_back(argument);
      continue;
    }
    const auto kind = GlogFlags().find(flag->name);
    const bool needs_value = kind != GlogFlags().end() && !kind->second;
    if (needs_value && !flag->value) {
      if (i + 1 == arguments->size())
        throw ConfigError(fmt::format("--{} has no value", flag->name),
                          fmt::format("write --{}=VALUE", flag->name));
      flag->value = (*arguments)[++i];
    }
    given[flag->name] = flag->value.value_or("");
  }
  *arguments = others;
  if (const auto level = given.find("minloglevel"); level != given.end())
    SetLeastLevel(level->second);
  if (const auto folder = given.find("log_dir"); folder != given.end() && !folder->second.empty())
    LogInto(folder->second, program);
}

}  // namespace carafe
