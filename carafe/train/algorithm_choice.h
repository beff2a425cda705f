// `--algorithm=measure`: the fastest algorithms are found by timing at the start, by rank 0 for
// all.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/net/net.h"

namespace carafe {

// What --algorithm or CARAFE_ALGORITHM says; "auto" by default.
std::string AskedAlgorithm();

// If asked to measure: rank 0 times the convolutions of the first net, but for those that its
// `known` has a line for (ChoicesToText, net/plan.h), and every rank plans all nets by the result.
// All ranks call it alike. Returns what is known then.
std::string MeasureForAll(Group& group, Stream& stream, const std::vector<Net<float>*>& nets,
                          const std::string& known = "");
// Double knows only the plain ways.
inline std::string MeasureForAll(Group&, Stream&, const std::vector<Net<double>*>&,
                                 const std::string& = "") {
  return "";
}

}  // namespace carafe
