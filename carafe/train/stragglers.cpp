// The stragglers of a forecast.
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/option_table.h"
#include "carafe/train/forecast.h"

namespace carafe {
namespace {

// A number in [0, 1) that depends on rank and step alone (the finaliser of splitmix64).
double Draw(int rank, int64_t step) {
  uint64_t x = static_cast<uint64_t>(rank) * 0x9e3779b97f4a7c15ULL +
               static_cast<uint64_t>(step) * 0xd1b54a32d192ed03ULL + 0x632be59bd9b4e019ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

// The whole text is a number in [least, most].
bool Parse(const std::string& text, double least, double most, double* value) {
  char* rest = nullptr;
  *value = std::strtod(text.c_str(), &rest);
  return !text.empty() && *rest == '\0' && *value >= least && *value <= most;
}

}  // namespace

std::vector<Stragglers> ParseStragglers(const std::string& text, const std::string& flag) {
  constexpr double kMostFactor = 1000, kMostRanks = 1e6;
  std::vector<Stragglers> slow;
  for (const std::string& entry : SplitList(text)) {
    const size_t colon = entry.find(':');
    const std::string who = entry.substr(0, colon);
    const bool percent = who.ends_with('%');
    double number = 0, factor = 0;
    const bool known =
        colon != std::string::npos && Parse(entry.substr(colon + 1), 1, kMostFactor, &factor) &&
        (percent ? Parse(who.substr(0, who.size() - 1), 0, 100, &number)
                 : Parse(who, 1, kMostRanks, &number) && number == static_cast<int>(number));
    if (!known)
      throw ConfigError(fmt::format("{}: \"{}\" is not WHO:FACTOR", flag, entry),
                        "write a number of ranks, or a share of all steps with %, and how many "
                        "times as long they take (1 to 1000), e.g. 1:2.0 or 5%:4");
    slow.push_back({.ranks = percent ? 0 : static_cast<int>(number),
                    .share = percent ? number / 100 : 0,
                    .factor = factor});
  }
  return slow;
}

double SlowdownOf(const std::vector<Stragglers>& slow, int ranks, int rank, int64_t step) {
  double factor = 1;
  for (const Stragglers& some : slow) {
    const bool always = some.ranks > 0 && rank >= ranks - some.ranks;
    if (always || (some.share > 0 && Draw(rank, step) < some.share)) factor *= some.factor;
  }
  return factor;
}

}  // namespace carafe
