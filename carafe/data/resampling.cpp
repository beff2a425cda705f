#include "carafe/data/resampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace carafe {
namespace {

// The weights of the source pixels of one target pixel; they add up to 1.
struct Taps {
  std::vector<int64_t> from;
  std::vector<float> weight;
};

// w(t) at distance t, within `radius`.
double Cubic(double t) {
  constexpr double kA = -0.75;
  t = std::abs(t);
  if (t <= 1) return ((kA + 2) * t - (kA + 3)) * t * t + 1;
  return t < 2 ? ((kA * t - 5 * kA) * t + 8 * kA) * t - 4 * kA : 0;
}

double Lanczos(double t) {
  if (std::abs(t) < 1e-9) return 1;
  const double x = std::numbers::pi * t;
  return std::abs(t) < 4 ? 4 * std::sin(x) * std::sin(x / 4) / (x * x) : 0;
}

template <typename Filter>
Taps FilterTaps(double centre, int radius, int64_t extent, const Filter& filter) {
  Taps taps;
  const auto first = static_cast<int64_t>(std::floor(centre)) - radius + 1;
  double sum = 0;
  for (int64_t i = first; i < first + 2 * radius; ++i) {
    sum += filter(centre - static_cast<double>(i));
  }
  for (int64_t i = first; i < first + 2 * radius; ++i) {
    taps.from.push_back(std::clamp<int64_t>(i, 0, extent - 1));
    taps.weight.push_back(static_cast<float>(filter(centre - static_cast<double>(i)) / sum));
  }
  return taps;
}

// Of pixels [begin, end) as far as they lie in it.
Taps AreaTaps(double begin, double end, int64_t extent) {
  Taps taps;
  for (auto i = static_cast<int64_t>(begin); i < extent && static_cast<double>(i) < end; ++i) {
    const double part =
        std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i));
    if (part <= 1e-9) continue;
    taps.from.push_back(i);
    taps.weight.push_back(static_cast<float>(part / (end - begin)));
  }
  return taps;
}

std::vector<Taps> AxisTaps(int64_t from, int64_t to, ResizeParameter::InterpMode mode) {
  std::vector<Taps> axis;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    switch (mode) {
      case ResizeParameter::CUBIC:
        axis.push_back(FilterTaps(centre, 2, from, Cubic));
        break;
      case ResizeParameter::LANCZOS4:
        axis.push_back(FilterTaps(centre, 4, from, Lanczos));
        break;
      case ResizeParameter::AREA:
        axis.push_back(
            AreaTaps(static_cast<double>(i) * scale, static_cast<double>(i + 1) * scale, from));
        break;
      default:  // NEAREST
        axis.push_back({{i * from / to}, {1}});
    }
  }
  return axis;
}

}  // namespace

Picture Resample(const PictureView& picture, int64_t height, int64_t width,
                 ResizeParameter::InterpMode mode) {
  const bool grows = height > picture.height || width > picture.width;
  if (mode == ResizeParameter::LINEAR || (mode == ResizeParameter::AREA && grows)) {
    return ResizePicture(picture, height, width);
  }
  const int64_t channels = picture.channels;
  const std::vector<Taps> rows = AxisTaps(picture.height, height, mode),
                          columns = AxisTaps(picture.width, width, mode);
  // Columns first: (old height, width, channels).
  std::vector<float> narrow(static_cast<size_t>(picture.height * width * channels));
  float* to = narrow.data();
  for (int64_t y = 0; y < picture.height; ++y) {
    const uint8_t* row = picture.pixels + y * picture.width * channels;
    for (const Taps& taps : columns) {
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (size_t k = 0; k < taps.from.size(); ++k) {
          sum += taps.weight[k] * static_cast<float>(row[taps.from[k] * channels + c]);
        }
        *to++ = sum;
      }
    }
  }
  Picture result{height, width, channels, {}};
  result.pixels.reserve(static_cast<size_t>(height * width * channels));
  for (const Taps& taps : rows) {
    for (int64_t x = 0; x < width * channels; ++x) {
      float sum = 0;
      for (size_t k = 0; k < taps.from.size(); ++k) {
        sum += taps.weight[k] * narrow[static_cast<size_t>(taps.from[k] * width * channels + x)];
      }
      result.pixels.push_back(static_cast<uint8_t>(std::clamp(std::nearbyint(sum), 0.0F, 255.0F)));
    }
  }
  return result;
}

}  // namespace carafe
