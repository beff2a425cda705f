// `--algorithm=measure`: the fastest algorithms are found by timing at the start, by rank 0 for
// all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/net/net.h"

namespace carafe {

// What --algorithm or CARAFE_ALGORITHM says; "auto" by default.
std::string AskedAlgorithm();

// If asked to measure: rank 0 times the convolutions of `net`, and every rank plans `net` and
// `others` by the result. All ranks call it alike.
void MeasureForAll(Group& group, Stream& stream, Net<float>& net,
                   const std::vector<std::unique_ptr<Net<float>>>& others);
// Double knows only the plain ways.
inline void MeasureForAll(Group&, Stream&, Net<double>&,
                          const std::vector<std::unique_ptr<Net<double>>>&) {}

}  // namespace carafe
