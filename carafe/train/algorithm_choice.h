// `--algorithm=measure`: the fastest algorithms are found by timing at the start, by rank 0 for
// all.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/net/net.h"

namespace carafe {

// If `asked` (--algorithm) is "measure": rank 0 times the convolutions of the first net, except
// those that its `known` has a line for (ChoicesToText, net/plan.h), and every rank plans all nets
// by the result. A collective call. Returns what is known then.
std::string MeasureForAll(Group& group, Stream& stream, const std::string& asked,
                          const std::vector<Net<float>*>& nets, const std::string& known = "");
// Nets of double have only the plain algorithm.
inline std::string MeasureForAll(Group&, Stream&, const std::string&,
                                 const std::vector<Net<double>*>&, const std::string& = "") {
  return "";
}

}  // namespace carafe
