// Work per channel on float maps in the blocked format (eight channels side by side in each pixel),
// on the CPU. Sums are formed image by image and then over the images, so they do not depend on the
// number of threads. Channels that pad the last block are 0 in what is read and in what is written.
#pragma once

#include <cstdint>

#include "carafe/core/format.h"
#include "carafe/core/stream.h"

namespace carafe {

// y = x * scale_c + shift_c, and max(0, .) of it on request; either may be null (1, 0). y may be x.
void BlockedScale(Stream& stream, const BlockedGeometry& g, const float* scale, const float* shift,
                  bool relu, const float* x, float* y);
// sums_c += sum of x; products_c += sum of x * y. Either may be null; y is read for products only.
void BlockedAddSums(Stream& stream, const BlockedGeometry& g, const float* x, const float* y,
                    float* sums, float* products);

// mean_c and the biased variance_c.
void BlockedStatistics(Stream& stream, const BlockedGeometry& g, const float* x, float* mean,
                       float* variance);

// x^ = (x - mean_c) * factor_c, y = scale_c x^ + shift_c (null: 1, 0), max(0, .) of it on request.
// x^ is stored as well where `normalized` is not null. y may be x.
void BlockedNormalize(Stream& stream, const BlockedGeometry& g, const float* mean,
                      const float* factor, const float* scale, const float* shift, bool relu,
                      const float* x, float* normalized, float* y);

// The gradient of BlockedNormalize where mean and factor are those of x. x^ is `normalized`, or is
// formed from x (mean not null). With `relu_of` dy counts only where that (y) is above 0.
//   dscale_c += sum of dy x^,  dshift_c += sum of dy        (either may be null)
//   dx = (dy - mean(dy) - x^ mean(dy x^)) * factor_c * scale_c;   dx may be dy; null: not wanted
// With constant statistics dx = dy * factor_c * scale_c, and x is not read but for dscale.
struct BlockedNormalizeGradient {
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* scale = nullptr;
  const float* x = nullptr;  // x^ where mean is null
  const float* relu_of = nullptr;
  bool constant_statistics = false;
  const float* dy = nullptr;
  float* dscale = nullptr;
  float* dshift = nullptr;
  float* dx = nullptr;
};
void BlockedNormalizeBackward(Stream& stream, const BlockedGeometry& g,
                              const BlockedNormalizeGradient& gradient);

// y = x > 0 ? x : slope_c x; dx = dy or slope_c dy by the sign of x; ds_c += sum of x dy over x <=
// 0.
void BlockedPRelu(Stream& stream, const BlockedGeometry& g, const float* slopes, const float* sign,
                  const float* x, float* y);
void BlockedAddPReluSlopes(Stream& stream, const BlockedGeometry& g, const float* x,
                           const float* dy, float* ds);

// y = x * scale where the mask is 1, 0 elsewhere; the mask lies in plain order (images, channels,
// plane).
void BlockedMultiplyMask(Stream& stream, const BlockedGeometry& g, float scale, const uint8_t* mask,
                         const float* x, float* y);

}  // namespace carafe
