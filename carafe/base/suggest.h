// "Did you mean ...": the names nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carafe {

// At most `most` of `names` within a small edit distance of `word` (case does not count), nearest
// first.
std::vector<std::string> NearestNames(std::string_view word, const std::vector<std::string>& names,
                                      size_t most = 3);

// `did you mean "Convolution"?`, or the list of all names where none is near: the text of a remedy.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names);

}  // namespace carafe
