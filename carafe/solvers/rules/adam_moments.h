// What Adam, AdamW and LAMB share: running means of the gradient and of its square, in the
// history's two slots, and the correction for their start at 0.
//  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  correction = sqrt(1 - b2^t) / (1 - b1^t)
#pragma once

#include <cmath>

#include "carafe/solvers/update_rule.h"

namespace carafe {

template <typename T>
struct AdamMoments {
  T b1, b2, delta, correction;

  // For the step after `iteration` (the first is 0), that is t = iteration + 1.
  static AdamMoments At(const RuleConfig& config, int64_t iteration) {
    const double t = static_cast<double>(iteration + 1);
    const double correction =
        std::sqrt(1 - std::pow(config.momentum2, t)) / (1 - std::pow(config.momentum, t));
    return {T(config.momentum), T(config.momentum2), T(config.delta), T(correction)};
  }
  // Moves the means of element i by the gradient g; returns factor m / (sqrt(v) + delta).
  CARAFE_HD T Advance(const UpdateArgs<T>& s, int64_t i, T g, T factor) const {
    T *m = s.slots[0], *v = s.slots[1];
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    return factor * m[i] / (sqrt(v[i]) + delta);
  }
};

}  // namespace carafe
