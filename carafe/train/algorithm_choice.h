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

// If asked to measure: rank 0 times the convolutions of the first net, and every rank plans all
// nets by the result. All ranks call it alike.
void MeasureForAll(Group& group, Stream& stream, const std::vector<Net<float>*>& nets);
// Double knows only the plain ways.
inline void MeasureForAll(Group&, Stream&, const std::vector<Net<double>*>&) {}

}  // namespace carafe
