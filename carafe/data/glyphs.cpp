#include "carafe/data/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr int kStepsPerPiece = 8;

Stroke Oval(double x, double y, double rx, double ry) {
  Stroke oval{Stroke::kClosed, {}};
  for (int i = 0; i < 8; ++i) {
    const double angle = 2 * std::numbers::pi * i / 8;
    oval.points.push_back({x + rx * std::sin(angle), y - ry * std::cos(angle)});
  }
  return oval;
}
Stroke Lines(std::vector<Point> points) { return {Stroke::kLines, std::move(points)}; }
Stroke Curve(std::vector<Point> points) { return {Stroke::kCurve, std::move(points)}; }
Stroke Closed(std::vector<Point> points) { return {Stroke::kClosed, std::move(points)}; }

std::array<std::vector<Glyph>, 10> MakeGlyphs() {
  return {{
      {{Oval(.5, .5, .5, .5)},
       {Curve({{.6, .02},
               {.2, .15},
               {.02, .5},
               {.2, .87},
               {.5, 1},
               {.85, .85},
               {1, .5},
               {.8, .12},
               {.45, .03}})},
       {Oval(.5, .5, .45, .5), Lines({{.78, .16}, {.22, .84}})}},
      {{Lines({{.5, 0}, {.5, 1}})},
       {Lines({{.2, .25}, {.58, 0}, {.58, 1}})},
       {Lines({{.25, .22}, {.55, 0}, {.55, 1}}), Lines({{.2, 1}, {.9, 1}})}},
      {{Curve({{.05, .25}, {.25, .04}, {.6, 0}, {.92, .2}, {.85, .45}, {.5, .72}, {.05, 1}}),
        Lines({{.05, 1}, {1, 1}})},
       {Curve({{.05, .22},
               {.4, 0},
               {.9, .18},
               {.8, .5},
               {.35, .9},
               {.08, .95},
               {.12, .78},
               {.4, .85},
               {1, 1}})},
       {Curve({{.08, .12}, {.5, 0}, {.9, .14}, {.88, .4}, {.55, .52}, {.15, .7}, {.05, 1}}),
        Lines({{.05, 1}, {.98, .98}})}},
      {{Curve({{.05, .12}, {.45, 0}, {.9, .2}, {.75, .42}, {.4, .48}}),
        Curve({{.4, .48}, {.85, .56}, {1, .77}, {.6, 1}, {.02, .9}})},
       {Lines({{.05, 0}, {.92, 0}, {.42, .4}}),
        Curve({{.42, .4}, {.85, .47}, {1, .72}, {.65, .98}, {.02, .9}})},
       {Curve({{.1, .05},
               {.6, 0},
               {.88, .18},
               {.7, .4},
               {.3, .5},
               {.75, .54},
               {.98, .75},
               {.7, .97},
               {.05, .98}})}},
      {{Lines({{.15, 0}, {.06, .55}, {1, .55}}), Lines({{.76, .12}, {.76, 1}})},
       {Lines({{.75, 1}, {.75, 0}, {0, .66}, {1, .66}})},
       {Curve({{.12, .02}, {.05, .38}, {.25, .56}, {.82, .48}}), Lines({{.92, .02}, {.8, 1}})}},
      {{Lines({{.92, 0}, {.2, 0}, {.12, .45}}),
        Curve({{.12, .45}, {.5, .36}, {.95, .55}, {.9, .85}, {.5, 1}, {.02, .9}})},
       {Curve({{.92, .02}, {.3, .03}, {.15, .38}, {.6, .42}, {.98, .7}, {.6, .98}, {.05, .92}})},
       {Lines({{.15, .04}, {.15, .46}}), Lines({{.15, .04}, {.95, .02}}),
        Curve({{.15, .46}, {.65, .38}, {.98, .66}, {.7, .95}, {.05, 1}})}},
      {{Curve({{.8, .02},
               {.35, .25},
               {.05, .65},
               {.25, .97},
               {.65, 1},
               {.95, .78},
               {.75, .53},
               {.35, .55},
               {.08, .75}})},
       {Curve({{.62, 0}, {.3, .3}, {.07, .68}}), Oval(.52, .73, .46, .27)},
       {Curve({{.88, .1},
               {.5, 0},
               {.1, .3},
               {.05, .72},
               {.45, 1},
               {.92, .82},
               {.85, .55},
               {.45, .46},
               {.08, .65}})}},
      {{Lines({{0, 0}, {1, 0}, {.35, 1}})},
       {Lines({{0, .02}, {1, 0}, {.4, 1}}), Lines({{.25, .5}, {.9, .48}})},
       {Lines({{.03, .16}, {.05, .02}, {1, 0}}), Curve({{1, 0}, {.62, .42}, {.45, 1}})}},
      {{Closed({{.5, .48},
                {.12, .25},
                {.5, 0},
                {.88, .25},
                {.5, .48},
                {.02, .75},
                {.5, 1},
                {.98, .75}})},
       {Oval(.5, .24, .38, .24), Oval(.5, .74, .5, .26)},
       {Curve({{.85, .14},
               {.45, 0},
               {.12, .2},
               {.5, .47},
               {.95, .75},
               {.5, 1},
               {.05, .77},
               {.5, .48},
               {.9, .22},
               {.78, .06}})}},
      {{Oval(.5, .27, .46, .27), Lines({{.95, .22}, {.86, 1}})},
       {Curve({{.92, .2}, {.5, 0}, {.08, .25}, {.4, .52}, {.9, .3}}),
        Curve({{.92, .16}, {.95, .6}, {.7, .95}, {.2, .95}})},
       {Curve({{.95, .25},
               {.6, 0},
               {.1, .15},
               {.15, .45},
               {.6, .5},
               {.93, .28},
               {.9, .62},
               {.55, 1}})}},
  }};
}

// The piece between p1 and p2 of the spline, t = 0..1.
Point CatmullRom(const Point& p0, const Point& p1, const Point& p2, const Point& p3, double t) {
  const auto blend = [t](double a, double b, double c, double d) {
    return .5 *
           (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * b - a - 3 * c + d))));
  };
  return {blend(p0.x, p1.x, p2.x, p3.x), blend(p0.y, p1.y, p2.y, p3.y)};
}

}  // namespace

std::span<const Glyph> GlyphsOf(int digit) {
  static const std::array<std::vector<Glyph>, 10> glyphs = MakeGlyphs();
  Ensure(digit >= 0 && digit <= 9, "not a digit");
  return glyphs[static_cast<size_t>(digit)];
}

std::vector<Point> TracePoints(const Stroke& stroke) {
  const std::vector<Point>& p = stroke.points;
  const auto n = static_cast<int>(p.size());
  const bool closed = stroke.kind == Stroke::kClosed;
  const auto at = [&](int i) {
    return p[static_cast<size_t>(closed ? (i + n) % n : std::clamp(i, 0, n - 1))];
  };
  std::vector<Point> trace = {at(0)};
  for (int i = 0; i < (closed ? n : n - 1); ++i) {
    for (int step = 1; step <= kStepsPerPiece; ++step) {
      const double t = static_cast<double>(step) / kStepsPerPiece;
      const Point a = at(i), b = at(i + 1);
      trace.push_back(stroke.kind == Stroke::kLines
                          ? Point{a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}
                          : CatmullRom(at(i - 1), a, b, at(i + 2), t));
    }
  }
  return trace;
}

}  // namespace carafe
