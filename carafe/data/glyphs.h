// How the digits 0-9 are written by hand: several styles each, as strokes through a few points.
#pragma once

#include <span>
#include <vector>

namespace carafe {

struct Point {
  double x = 0, y = 0;  // the digit fills 0..1 in both; y goes down
};

struct Stroke {
  enum Kind {
    kLines,   // straight from point to point
    kCurve,   // a smooth curve through all points
    kClosed,  // likewise, and back to the first
  };
  Kind kind;
  std::vector<Point> points;
};

using Glyph = std::vector<Stroke>;

// The ways to write `digit`, 0 <= digit <= 9.
std::span<const Glyph> GlyphsOf(int digit);

// The stroke as a fine row of points: Catmull-Rom splines for curves.
std::vector<Point> TracePoints(const Stroke& stroke);

}  // namespace carafe
