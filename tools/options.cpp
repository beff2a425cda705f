// carafe options: every option of the commands that have a table of them; docs/options.md is its
// --markdown, and tests read its --json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace carafe {
namespace {

using Json = nlohmann::json;

const char* TypeName(OptionType type) {
  constexpr const char* kNames[] = {"text", "integer", "number", "choice", "switch"};
  return kNames[static_cast<int>(type)];
}

bool IsNumber(const OptionInfo& info) {
  return info.domain.type == OptionType::kInteger || info.domain.type == OptionType::kNumber;
}

std::vector<std::string> Samples(const OptionInfo& info) {
  if (!info.samples.empty()) return info.samples;
  if (IsNumber(info)) return {OptionText(info.domain.min), OptionText(info.domain.min + 1)};
  return info.domain.choices ? info.domain.choices() : std::vector<std::string>{};
}

Json ToJson(const OptionInfo& info) {
  Json json = {{"name", info.name},
               {"aliases", info.aliases},
               {"section", info.section},
               {"type", TypeName(info.domain.type)},
               {"default", info.default_text},
               {"solver_field", info.solver_field},
               {"environment", info.environment},
               {"required", info.required},
               {"ranks_may_differ", info.ranks_may_differ},
               {"may_change_weights", info.weights == WeightEffect::kMayChange},
               {"samples", Samples(info)},
               {"help", info.help}};
  if (info.domain.choices) json["choices"] = info.domain.choices();
  if (IsNumber(info)) json["allowed"] = info.domain.Allowed();
  return json;
}

std::string Values(const OptionInfo& info) {
  if (info.domain.type == OptionType::kSwitch) return "";
  if (info.domain.choices) return fmt::format("`{}`", fmt::join(info.domain.choices(), "` `"));
  return IsNumber(info) ? info.domain.Allowed() : "text";
}

std::string Names(const OptionInfo& info) {
  std::string names = fmt::format("`--{}`", info.name);
  for (const std::string& alias : info.aliases) names += fmt::format(", `--{}`", alias);
  return names;
}

std::string Elsewhere(const OptionInfo& info) {
  std::string text;
  if (!info.solver_field.empty()) text = fmt::format("`{}` in the solver", info.solver_field);
  if (!info.environment.empty()) text = fmt::format("variable `{}`", info.environment);
  return text;
}

void PrintMarkdown() {
  fmt::print(
      "# Options\n\nPrinted by `carafe options --markdown`; a test compares. A flag comes before "
      "the environment variable, that before\nthe field of the solver, and that before the "
      "default. `-flag value` and `--flag=value` mean the same. Flags marked *per rank*\nmay "
      "differ "
      "between the ranks of a run.\n");
  for (const auto& [name, command] : CommandRegistry::Instance().entries()) {
    if (!command.options) continue;
    fmt::print("\n## carafe {}\n{}\n", name, command.summary);
    std::string section;
    for (const OptionInfo& info : command.options()) {
      if (info.section != section)
        fmt::print(
            "\n### {}\n| flag | values | default | also | meaning |\n"
            "| --- | --- | --- | --- | --- |\n",
            info.section);
      section = info.section;
      fmt::print("| {} | {} | {} | {} | {}{} |\n", Names(info), Values(info),
                 info.required ? "required" : info.default_text, Elsewhere(info), info.help,
                 info.ranks_may_differ ? " *per rank*" : "");
    }
  }
}

void PrintJson() {
  Json json = Json::object();
  for (const auto& [name, command] : CommandRegistry::Instance().entries()) {
    if (!command.options) continue;
    for (const OptionInfo& info : command.options()) json[name].push_back(ToJson(info));
  }
  fmt::print("{}\n", json.dump(1));
}

void PrintText() {
  for (const auto& [name, command] : CommandRegistry::Instance().entries()) {
    if (!command.options) continue;
    fmt::print("{}\n", name);
    for (const OptionInfo& info : command.options())
      fmt::print("  --{:<18} {}{}\n", info.name, info.help,
                 info.default_text.empty() ? "" : fmt::format(" [{}]", info.default_text));
  }
}

struct Forms {
  bool markdown = false, json = false;
};

const RegisterCommand kRegistered{
    {.name = "options",
     .summary = "List the options of train, test and time.",
     .examples = "  carafe options\n  carafe options --markdown > docs/options.md",
     .prepare = [](CLI::App& app) {
       auto forms = std::make_shared<Forms>();
       app.add_flag("--markdown", forms->markdown, "as the page docs/options.md");
       app.add_flag("--json", forms->json, "everything that the tables say, for programs");
       return [forms] {
         if (forms->markdown) {
           PrintMarkdown();
         } else if (forms->json) {
           PrintJson();
         } else {
           PrintText();
         }
         return 0;
       };
     }}};

}  // namespace
}  // namespace carafe
