#include "carafe/data/box_sampling.h"

#include <algorithm>
#include <cmath>

#include "carafe/base/index.h"

namespace carafe {
namespace {

constexpr Corners kWhole = {0, 0, 1, 1};

// scale^2 is the area; the ratio is limited so that neither side is longer than the image.
Corners DrawBox(const BoxSampler& sampler, RandomSequence* draws) {
  const float scale = DrawBetween(sampler.min_scale(), sampler.max_scale(), draws);
  const float area = scale * scale;
  const float least = std::max(sampler.min_aspect_ratio(), area);
  const float most = std::min(sampler.max_aspect_ratio(), 1 / area);
  const float root = std::sqrt(DrawBetween(std::min(least, most), most, draws));
  const float width = std::min(1.0F, scale * root), height = std::min(1.0F, scale / root);
  const float x = DrawBetween(0, 1 - width, draws), y = DrawBetween(0, 1 - height, draws);
  return {x, y, x + width, y + height};
}

bool Within(float value, bool has_least, float least, bool has_most, float most) {
  return (!has_least || value >= least) && (!has_most || value <= most);
}

// Each of the three kinds of limits by itself must hold for the same box.
bool Meets(const Corners& part, const Corners& box, const SampleConstraint& c) {
  return Within(Overlap(part, box), c.has_min_jaccard_overlap(), c.min_jaccard_overlap(),
                c.has_max_jaccard_overlap(), c.max_jaccard_overlap()) &&
         Within(Coverage(part, box), c.has_min_sample_coverage(), c.min_sample_coverage(),
                c.has_max_sample_coverage(), c.max_sample_coverage()) &&
         Within(Coverage(box, part), c.has_min_object_coverage(), c.min_object_coverage(),
                c.has_max_object_coverage(), c.max_object_coverage());
}

bool HasLimits(const SampleConstraint& c) {
  return c.has_min_jaccard_overlap() || c.has_max_jaccard_overlap() ||
         c.has_min_sample_coverage() || c.has_max_sample_coverage() ||
         c.has_min_object_coverage() || c.has_max_object_coverage();
}

bool Stays(const Corners& box, const Corners& part, const EmitConstraint& constraint) {
  if (constraint.emit_type() == EmitConstraint::MIN_OVERLAP) {
    return Coverage(box, part) > constraint.emit_overlap();
  }
  const float x = (box.x1 + box.x2) / 2, y = (box.y1 + box.y2) / 2;
  return x >= part.x1 && x <= part.x2 && y >= part.y1 && y <= part.y2;
}

}  // namespace

float DrawBetween(float low, float high, RandomSequence* draws) {
  return low + static_cast<float>(draws->NextUniform()) * (high - low);
}

float Coverage(const Corners& box, const Corners& other) {
  const Corners both = {std::max(box.x1, other.x1), std::max(box.y1, other.y1),
                        std::min(box.x2, other.x2), std::min(box.y2, other.y2)};
  const float area = Area(box);
  return area > 0 ? Area(both) / area : 0;
}

Corners DrawPart(const google::protobuf::RepeatedPtrField<BatchSampler>& samplers,
                 const std::vector<AnnotatedBox>& boxes, RandomSequence* draws) {
  std::vector<Corners> parts;
  for (const BatchSampler& sampler : samplers) {
    if (!sampler.use_original_image()) continue;
    uint32_t found = 0;
    for (uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && found >= sampler.max_sample()) break;
      const Corners part = DrawBox(sampler.sampler(), draws);
      const bool meets = !HasLimits(sampler.sample_constraint()) ||
                         std::ranges::any_of(boxes, [&](const AnnotatedBox& box) {
                           return Meets(part, box.corners, sampler.sample_constraint());
                         });
      if (!meets) continue;
      parts.push_back(part);
      ++found;
    }
  }
  if (parts.empty()) return kWhole;
  return At(parts, static_cast<int64_t>(draws->NextBelow(parts.size())));
}

Corners DrawJitteredPart(float jitter, RandomSequence* draws) {
  const float width = DrawBetween(1 - jitter, 1, draws), height = DrawBetween(1 - jitter, 1, draws);
  const float x = DrawBetween(0, 1 - width, draws), y = DrawBetween(0, 1 - height, draws);
  return {x, y, x + width, y + height};
}

std::vector<AnnotatedBox> ProjectBoxes(const std::vector<AnnotatedBox>& boxes, const Corners& part,
                                       const EmitConstraint* constraint) {
  const float width = part.x2 - part.x1, height = part.y2 - part.y1;
  std::vector<AnnotatedBox> projected;
  for (AnnotatedBox box : boxes) {
    if (constraint != nullptr && !Stays(box.corners, part, *constraint)) continue;
    const auto x = [&](float v) { return std::clamp((v - part.x1) / width, 0.0F, 1.0F); };
    const auto y = [&](float v) { return std::clamp((v - part.y1) / height, 0.0F, 1.0F); };
    box.corners = {x(box.corners.x1), y(box.corners.y1), x(box.corners.x2), y(box.corners.y2)};
    if (box.corners.x2 > box.corners.x1 && box.corners.y2 > box.corners.y1) {
      projected.push_back(box);
    }
  }
  return projected;
}

}  // namespace carafe
