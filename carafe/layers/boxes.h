// Boxes of detectors, on the host: how predictions encode them, and the suppression of boxes that
// overlap better ones.
#pragma once

#include <array>
#include <vector>

#include "carafe/core/corners.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// The box that the offsets d name, relative to a prior with corners p and variances v; both are
// four numbers. In pixels a prior includes its last row and column.
Corners Decode(PriorBoxParameter::CodeType code, const float* p, const float* v, const float* d,
               BoxUnit unit = BoxUnit::kPart);
// The inverse: the offsets that name `box`, of which both sides must be above 0 for CENTER_SIZE.
std::array<double, 4> Encode(PriorBoxParameter::CodeType code, const float* p, const float* v,
                             const Corners& box);

struct Suppression {
  float score_above = 0;   // boxes of this score and less are left out
  float most_overlap = 1;  // a box that overlaps a better one by more goes
  int candidates = -1;     // only so many of the best boxes are looked at; negative: all
  float eta = 1;           // below 1: most_overlap times eta after each box kept, while above 0.5
  BoxUnit unit = BoxUnit::kPart;
};

// The indices of the boxes that stay, best first; of equal scores the first comes first.
std::vector<int> Suppress(const std::vector<Corners>& boxes, const std::vector<float>& scores,
                          const Suppression& settings);

}  // namespace carafe
