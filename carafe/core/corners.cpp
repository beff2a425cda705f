#include "carafe/core/corners.h"

#include <algorithm>

namespace carafe {

float Area(const Corners& box, BoxUnit unit) {
  if (box.x2 < box.x1 || box.y2 < box.y1) return 0;
  const float more = unit == BoxUnit::kPixel ? 1 : 0;
  return (box.x2 - box.x1 + more) * (box.y2 - box.y1 + more);
}

float Overlap(const Corners& a, const Corners& b, BoxUnit unit) {
  const float more = unit == BoxUnit::kPixel ? 1 : 0;
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1) + more;
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1) + more;
  if (width <= 0 || height <= 0) return 0;
  const float both = width * height;
  return both / (Area(a, unit) + Area(b, unit) - both);
}

}  // namespace carafe
