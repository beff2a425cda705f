// The codecs that --wire names.
//
//   fp32    4 bytes per element: the gradients as they are, no codec
//
//   bf16    2: the upper half of a float, rounded to nearest even; 8 bits of mantissa
//
//   fp16    2: 11 bits of mantissa; of what is beyond 65504 that much, and the rest later
//
//   topk:R  8 R: of each message the R * count elements that are largest in magnitude
//
// All of them keep residuals, and keep NaN and infinity.
#pragma once

#include <memory>
#include <string>

#include "carafe/exchange/codec.h"

namespace carafe {

// Off, what an encoding loses is lost: for tests that show what feedback is good for.
enum class ErrorFeedback { kOn, kOff };

// Null for "fp32". Throws ConfigError that lists the names.
std::unique_ptr<const Codec> MakeWireCodec(const std::string& wire,
                                           ErrorFeedback feedback = ErrorFeedback::kOn);

}  // namespace carafe
