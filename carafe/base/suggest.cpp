#include "carafe/base/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace carafe {
namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Optimal string alignment distance: insert, delete, replace, or swap two neighbours, each costs 1.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

bool SwappedStart(std::string_view a, std::string_view b) {
  return a.size() > 1 && b.size() > 1 && Lower(a[0]) == Lower(b[1]) && Lower(a[1]) == Lower(b[0]);
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view word, const std::vector<std::string>& names,
                                      size_t most) {
  // Nobody mistypes more than two letters of a name; what is further away is another name.
  const size_t limit = std::clamp<size_t>(word.size() / 3, 1, 2);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : names) {
    // Of short words the first letter is hardly ever the wrong one: "Flip" is not "Clip".
    const bool other_word = word.size() < 6 && name.size() == word.size() && !word.empty() &&
                            Lower(word[0]) != Lower(name[0]) && !SwappedStart(word, name);
    const size_t distance = EditDistance(word, name);
    if (distance <= limit && !other_word) near.emplace_back(distance, name);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(most, near.size()); ++i) result.push_back(near[i].second);
  return result;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string> near = NearestNames(word, names);
  if (near.empty()) return fmt::format("use one of: {}", fmt::join(names, ", "));
  return fmt::format("did you mean \"{}\"?", fmt::join(near, "\" or \""));
}

}  // namespace carafe
