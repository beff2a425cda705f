// Parts of an image to train a detector on, as SSD draws them, and what becomes of the boxes in it.
#pragma once

#include <vector>

#include "carafe/base/random.h"
#include "carafe/core/corners.h"
#include "carafe/data/annotations.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {

// Uniform in [low, high).
float DrawBetween(float low, float high, RandomSequence* draws);

// The share of `box` that lies in `other`.
float Coverage(const Corners& box, const Corners& other);

// One of the parts of the image that the samplers have found, or the whole of it if they found
// none. Each sampler tries max_trials times, until it has max_sample parts that meet its constraint
// with any of the boxes.
Corners DrawPart(const google::protobuf::RepeatedPtrField<BatchSampler>& samplers,
                 const std::vector<AnnotatedBox>& boxes, RandomSequence* draws);

// A part that has lost up to `jitter` of the width and of the height (Darknet).
Corners DrawJitteredPart(float jitter, RandomSequence* draws);

// The boxes as parts of `part`, clipped to it. Those that do not meet the constraint (null: none)
// or have no area there are left out. `part` may be larger than the image.
std::vector<AnnotatedBox> ProjectBoxes(const std::vector<AnnotatedBox>& boxes, const Corners& part,
                                       const EmitConstraint* constraint);

}  // namespace carafe
