// carafe layers: the layer types of this build; docs/layers.md is its --markdown.
#include <fmt/format.h>

#include <memory>

#include "carafe/layers/layer.h"
#include "tools/command.h"

namespace carafe {
namespace {

std::string Count(const Arity& arity) {
  if (arity.min == arity.max) return fmt::format("{}", arity.min);
  if (arity.max == Arity::kAny) return fmt::format("{}+", arity.min);
  return fmt::format("{}-{}", arity.min, arity.max);
}

int List(bool markdown) {
  if (markdown) {
    fmt::print(
        "# Layers\n\nPrinted by `carafe layers --markdown`; a test compares.\n\n"
        "| type | bottoms | tops | what it does |\n| --- | --- | --- | --- |\n");
  }
  for (const auto& [type, entry] : LayerRegistry::Instance().entries()) {
    const LayerInfo& info = entry.info;
    if (markdown) {
      fmt::print("| {} | {} | {} | {} |\n", type, Count(info.bottoms), Count(info.tops),
                 info.summary);
    } else {
      fmt::print("{:<24} {:>4} -> {:<4} {}\n", type, Count(info.bottoms), Count(info.tops),
                 info.summary);
    }
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "layers",
     .summary = "List the layer types.",
     .examples = "  carafe layers\n  carafe layers --markdown > docs/layers.md",
     .prepare = [](CLI::App& app) {
       auto markdown = std::make_shared<bool>(false);
       app.add_flag("--markdown", *markdown, "as the table of docs/layers.md");
       return [markdown] { return List(*markdown); };
     }}};

}  // namespace
}  // namespace carafe
