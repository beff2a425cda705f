#include "tools/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace carafe {
namespace {

std::string TypeName(const OptionDomain& domain) {
  switch (domain.type) {
    case OptionType::kChoice:
      return fmt::format("{}", fmt::join(domain.choices(), "|"));
    case OptionType::kInteger:
    case OptionType::kNumber:
      return "NUMBER";
    case OptionType::kText:
    case OptionType::kSwitch:
      break;
  }
  return "TEXT";
}

std::string HelpText(const OptionInfo& info) {
  std::string text = info.help;
  const bool number =
      info.domain.type == OptionType::kInteger || info.domain.type == OptionType::kNumber;
  if (number) text += fmt::format(" ({})", info.domain.Allowed());
  if (!info.solver_field.empty()) text += fmt::format("; in the solver: {}", info.solver_field);
  if (!info.environment.empty()) text += fmt::format("; or the variable {}", info.environment);
  if (!info.default_text.empty() && info.domain.type != OptionType::kSwitch)
    text += fmt::format("; default: {}", info.default_text);
  return text;
}

}  // namespace

void DeclareFlags(CLI::App& app, const std::vector<OptionInfo>& infos, GivenOptions* given) {
  for (const OptionInfo& info : infos) {
    std::string names = "--" + info.name;
    for (const std::string& alias : info.aliases) names += ",--" + alias;
    CLI::Option* option = nullptr;
    if (info.domain.type == OptionType::kSwitch) {
      option = app.add_flag_callback(
          names, [given, name = info.name] { (*given)[name] = "on"; }, HelpText(info));
    } else {
      option = app.add_option_function<std::string>(
          names, [given, name = info.name](const std::string& text) { (*given)[name] = text; },
          HelpText(info));
      option->type_name(TypeName(info.domain));
    }
    option->required(info.required);
    if (!info.section.empty()) option->group(info.section);
  }
}

std::string FlagsThatMayDiffer(const std::vector<OptionInfo>& infos) {
  std::vector<std::string> names;
  for (const OptionInfo& info : infos) {
    if (info.ranks_may_differ) names.push_back("--" + info.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace carafe
