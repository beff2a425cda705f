#include "tools/command_words.h"

#include <optional>

namespace carafe {
namespace {

// Whether `word` is the flag, with one dash or two; `value` is what follows an =, if anything does.
bool IsFlag(const std::string& word, const std::string& flag, std::optional<std::string>* value) {
  const size_t dashes = word.starts_with("--") ? 2 : word.starts_with("-") ? 1 : 0;
  if (dashes == 0) return false;
  const size_t equals = word.find('=');
  if (word.substr(dashes, equals == std::string::npos ? equals : equals - dashes) != flag)
    return false;
  *value = equals == std::string::npos ? std::nullopt : std::optional(word.substr(equals + 1));
  return true;
}

}  // namespace

std::string FlagValue(const std::vector<std::string>& command, const std::string& flag) {
  for (size_t i = 0; i < command.size(); ++i) {
    std::optional<std::string> value;
    if (!IsFlag(command[i], flag, &value)) continue;
    if (value) return *value;
    return i + 1 < command.size() ? command[i + 1] : "";
  }
  return "";
}

std::vector<std::string> WithoutFlag(const std::vector<std::string>& command,
                                     const std::string& flag) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < command.size(); ++i) {
    std::optional<std::string> value;
    if (!IsFlag(command[i], flag, &value))
      kept.push_back(command[i]);
    else if (!value)
      ++i;  // its value is the next word
  }
  return kept;
}

}  // namespace carafe
