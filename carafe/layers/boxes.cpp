#include "carafe/layers/boxes.h"

#include <algorithm>
#include <cmath>

#include "carafe/base/index.h"

namespace carafe {

Corners Decode(PriorBoxParameter::CodeType code, const float* p, const float* v, const float* d,
               BoxUnit unit) {
  const float more = unit == BoxUnit::kPixel ? 1 : 0;
  const float width = p[2] - p[0] + more, height = p[3] - p[1] + more;
  switch (code) {
    case PriorBoxParameter::CORNER:
      return {p[0] + v[0] * d[0], p[1] + v[1] * d[1], p[2] + v[2] * d[2], p[3] + v[3] * d[3]};
    case PriorBoxParameter::CORNER_SIZE:
      return {p[0] + v[0] * d[0] * width, p[1] + v[1] * d[1] * height, p[2] + v[2] * d[2] * width,
              p[3] + v[3] * d[3] * height};
    case PriorBoxParameter::CENTER_SIZE: {
      const float x = v[0] * d[0] * width + p[0] + width / 2;
      const float y = v[1] * d[1] * height + p[1] + height / 2;
      const float w = std::exp(v[2] * d[2]) * width, h = std::exp(v[3] * d[3]) * height;
      return {x - w / 2, y - h / 2, x + w / 2, y + h / 2};
    }
  }
  return {};
}

std::array<double, 4> Encode(PriorBoxParameter::CodeType code, const float* p, const float* v,
                             const Corners& box) {
  const double width = p[2] - p[0], height = p[3] - p[1];
  const double by[4] = {box.x1 - p[0], box.y1 - p[1], box.x2 - p[2], box.y2 - p[3]};
  std::array<double, 4> offsets = {};
  switch (code) {
    case PriorBoxParameter::CORNER:
      offsets = {by[0], by[1], by[2], by[3]};
      break;
    case PriorBoxParameter::CORNER_SIZE:
      offsets = {by[0] / width, by[1] / height, by[2] / width, by[3] / height};
      break;
    case PriorBoxParameter::CENTER_SIZE:
      offsets = {(by[0] + by[2]) / 2 / width, (by[1] + by[3]) / 2 / height,
                 std::log((box.x2 - box.x1) / width), std::log((box.y2 - box.y1) / height)};
      break;
  }
  for (int i = 0; i < 4; ++i) At(offsets, i) /= v[i];
  return offsets;
}

std::vector<int> Suppress(const std::vector<Corners>& boxes, const std::vector<float>& scores,
                          const Suppression& settings) {
  std::vector<int> order;
  for (int i = 0; i < Count(scores); ++i) {
    if (At(scores, i) > settings.score_above) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](int a, int b) { return At(scores, a) > At(scores, b); });
  if (settings.candidates >= 0 && settings.candidates < Count(order)) {
    order.resize(static_cast<size_t>(settings.candidates));
  }
  std::vector<int> kept;
  float most = settings.most_overlap;
  for (const int i : order) {
    const bool covered = std::ranges::any_of(
        kept, [&](int k) { return Overlap(At(boxes, i), At(boxes, k), settings.unit) > most; });
    if (covered) continue;
    kept.push_back(i);
    if (settings.eta < 1 && most > 0.5F) most *= settings.eta;
  }
  return kept;
}

}  // namespace carafe
