// Boxes of detectors by their corners: area and overlap.
#pragma once

namespace carafe {

// Corners, as parts of the image or in pixels.
struct Corners {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// In pixels a box includes its last row and column, so its width is x2 - x1 + 1.
enum class BoxUnit { kPart, kPixel };

float Area(const Corners& box, BoxUnit unit = BoxUnit::kPart);
// Area of the intersection over area of the union (Jaccard), 0 for boxes that do not meet.
float Overlap(const Corners& a, const Corners& b, BoxUnit unit = BoxUnit::kPart);

}  // namespace carafe
