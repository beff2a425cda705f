#include "carafe/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {
namespace {

using Units = std::vector<std::pair<std::string, double>>;

// A finite number followed by one of the units, in lower case; NaN for anything else.
double NumberWithUnit(std::string text, const Units& units) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.'))
    return NAN;
  char* rest = nullptr;
  const double number = std::strtod(text.c_str(), &rest);
  while (*rest == ' ') ++rest;
  for (const auto& [name, factor] : units)
    if (name == rest && std::isfinite(number * factor)) return number * factor;
  return NAN;
}

[[noreturn]] void Refuse(const std::string& text, const std::string& flag, const char* fix) {
  throw ConfigError(fmt::format("{} is \"{}\"", flag, text), fix);
}

}  // namespace

double ParseBandwidth(const std::string& text, const std::string& flag) {
  const Units units = {{"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}, {"kbit", 1e3 / 8},
                       {"gb", 1e9},       {"mb", 1e6},       {"kb", 1e3}};
  std::string plain = text;
  if (plain.ends_with("/s")) plain.resize(plain.size() - 2);
  const double value = NumberWithUnit(plain, units);
  if (!(value > 0))
    Refuse(
        text, flag,
        "write a number above 0 and a unit: bits in gbit or mbit, bytes in GB or MB, e.g. 10gbit "
        "or 1.1GB");
  return value;
}

double ParseDuration(const std::string& text, const std::string& flag) {
  const Units units = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const double value = NumberWithUnit(text, units);
  if (!(value >= 0)) Refuse(text, flag, "write a number and a unit, ns, us, ms or s, e.g. 20us");
  return value;
}

}  // namespace carafe
