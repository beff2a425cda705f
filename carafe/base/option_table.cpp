#include "carafe/base/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "carafe/base/suggest.h"

namespace carafe {
namespace {

// The whole text as a number; a leading + is allowed.
template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

bool Within(const OptionDomain& domain, double value) {  // false for NaN
  return (value >= domain.min && value <= domain.max) ||
         (value >= domain.also_min && value <= domain.also_max);
}

std::string RangeText(const OptionDomain& domain) {
  const double most = domain.type == OptionType::kInteger ? 2147483647.0 : 1e15;
  if (domain.max >= most && domain.min <= -most) return "a number";
  if (domain.max >= most) return OptionText(domain.min) + " or more";
  return fmt::format("{} to {}", OptionText(domain.min), OptionText(domain.max));
}

}  // namespace

std::string OptionText(double value) {
  const std::string shortest = fmt::format("{}", value);
  return shortest.find('e') == std::string::npos ? shortest : fmt::format("{:g}", value);
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

std::string JoinList(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string OptionDomain::Allowed() const {
  switch (type) {
    case OptionType::kChoice:
    case OptionType::kSwitch:
      return fmt::format("one of {}", fmt::join(choices(), ", "));
    case OptionType::kInteger:
    case OptionType::kNumber:
      return also.empty() ? RangeText(*this) : fmt::format("{}, or {}", RangeText(*this), also);
    case OptionType::kText:
      break;
  }
  return "a text";
}

size_t OptionDomain::Choice(const std::string& text, const std::string& name,
                            const Location& where) const {
  const std::vector<std::string> names = choices();
  const auto synonym = synonyms.find(text);
  const auto found = std::ranges::find(names, synonym == synonyms.end() ? text : synonym->second);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const std::vector<std::string> near = NearestNames(text, names, 1);
  throw ConfigError(where, fmt::format("{} is \"{}\"", name, text),
                    near.empty()
                        ? "use " + Allowed()
                        : fmt::format("did you mean \"{}\"? Use {}", near.front(), Allowed()));
}

double OptionDomain::Number(const std::string& text, const std::string& name,
                            const Location& where) const {
  double value = 0;
  if (!ParseWhole(text, &value))
    throw ConfigError(where, fmt::format("{} is \"{}\"", name, text), "use " + Allowed());
  if (!std::isfinite(value) || !Within(*this, value))
    throw ConfigError(where, fmt::format("{} is {}", name, text), "use " + Allowed());
  return value;
}

int64_t OptionDomain::Integer(const std::string& text, const std::string& name,
                              const Location& where) const {
  int64_t value = 0;
  if (!ParseWhole(text, &value)) {
    const bool digits =
        !text.empty() && text.find_first_not_of("+-0123456789") == std::string::npos;
    throw ConfigError(
        where,
        digits ? fmt::format("{} is {}", name, text) : fmt::format("{} is \"{}\"", name, text),
        "use " + Allowed());
  }
  if (!Within(*this, static_cast<double>(value)))
    throw ConfigError(where, fmt::format("{} is {}", name, value), "use " + Allowed());
  return value;
}

GivenOptions WithEnvironment(const std::vector<OptionInfo>& infos, GivenOptions given) {
  for (const OptionInfo& info : infos) {
    if (info.environment.empty()) continue;
    const char* value = std::getenv(info.environment.c_str());
    if (value != nullptr) given.emplace(info.name, value);
  }
  return given;
}

}  // namespace carafe
