#include "carafe/data/digits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/glyphs.h"
#include "carafe/proto/messages.h"

namespace carafe {
namespace {

using Canvas = std::array<double, kDigitSide * kDigitSide>;  // ink, 0..1

double Between(RandomSequence& random, double low, double high) {
  return low + (high - low) * random.NextUniform();
}

// From the unit square of a glyph to pixels.
struct Pose {
  explicit Pose(RandomSequence& random) {
    const double height = Between(random, 15, 22), width = height * Between(random, .5, .8);
    const double slant = Between(random, -.2, .45);
    const double turn = Between(random, -.22, .22);  // radians
    cos_ = std::cos(turn);
    sin_ = std::sin(turn);
    width_ = width;
    height_ = height;
    slant_ = slant;
    const double slack = std::min(2.6, (kDigitSide - 1 - height) / 2);  // stays on the paper
    x_ = (kDigitSide - 1) / 2.0 + Between(random, -slack, slack);
    y_ = (kDigitSide - 1) / 2.0 + Between(random, -slack, slack);
  }
  Point operator()(const Point& p) const {
    const double v = (p.y - .5) * height_;
    const double u = (p.x - .5) * width_ - slant_ * v;
    return {x_ + cos_ * u - sin_ * v, y_ + sin_ * u + cos_ * v};
  }

 private:
  double cos_, sin_, width_, height_, slant_, x_, y_;
};

// A smooth displacement of the paper, so that no two strokes bend alike.
struct Wobble {
  explicit Wobble(RandomSequence& random) {
    for (auto& wave : waves_) {
      wave = {Between(random, 2, 9), Between(random, 2, 9),
              Between(random, 0, 2 * std::numbers::pi), random.NextGaussian() * .02,
              random.NextGaussian() * .02};
    }
  }
  Point operator()(Point p) const {
    Point moved = p;
    for (const Wave& wave : waves_) {
      const double value = std::sin(wave.fx * p.x + wave.fy * p.y + wave.phase);
      moved.x += wave.dx * value;
      moved.y += wave.dy * value;
    }
    return moved;
  }

 private:
  struct Wave {
    double fx, fy, phase, dx, dy;
  };
  std::array<Wave, 3> waves_;
};

double DistanceToSegment(double x, double y, const Point& a, const Point& b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  const double t =
      length2 > 0 ? std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0) : 0;
  const double u = x - a.x - t * dx, v = y - a.y - t * dy;
  return std::sqrt(u * u + v * v);
}

// A line with round ends; a pixel is inked by how far its centre lies within the edge.
void DrawSegment(const Point& a, const Point& b, double radius, Canvas& canvas) {
  const double reach = radius + 1;
  const auto pixel = [](double v) {
    return static_cast<int>(std::clamp(v, 0.0, kDigitSide - 1.0));
  };
  const int left = pixel(std::min(a.x, b.x) - reach), right = pixel(std::max(a.x, b.x) + reach);
  const int top = pixel(std::min(a.y, b.y) - reach), bottom = pixel(std::max(a.y, b.y) + reach);
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const double ink = std::clamp(radius + .5 - DistanceToSegment(x, y, a, b), 0.0, 1.0);
      double& value = canvas[static_cast<size_t>(y * kDigitSide + x)];
      value = std::max(value, ink);
    }
  }
}

// Each pixel gives `share` of its ink to its left and right, then upper and lower neighbours.
void Blur(double share, Canvas& canvas) {
  for (const int step : {1, kDigitSide}) {
    const Canvas before = canvas;
    for (int i = 0; i < kDigitSide * kDigitSide; ++i) {
      const int along = step == 1 ? i % kDigitSide : i / kDigitSide;
      const auto here = static_cast<size_t>(i);
      const double low = along > 0 ? before[static_cast<size_t>(i - step)] : 0;
      const double high = along + 1 < kDigitSide ? before[static_cast<size_t>(i + step)] : 0;
      canvas[here] = (1 - share) * before[here] + share / 2 * (low + high);
    }
  }
}

DigitImage Print(const Canvas& canvas, double strength, double noise, RandomSequence& random) {
  DigitImage image;
  for (size_t i = 0; i < canvas.size(); ++i) {
    const double value = strength * canvas[i] + noise * random.NextGaussian();
    image[i] = static_cast<uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
  }
  return image;
}

// Every class equally often (up to one), in random order.
std::vector<int> ShuffledLabels(int64_t count, uint64_t key) {
  std::vector<int> labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int>(i % 10);
  RandomSequence random(key);
  for (size_t i = labels.size(); i > 1; --i) std::swap(labels[i - 1], labels[random.NextBelow(i)]);
  return labels;
}

void WriteSet(uint64_t key, int64_t count, DatabaseWriter& writer) {
  const std::vector<int> labels = ShuffledLabels(count, key);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(kDigitSide);
  datum.set_width(kDigitSide);
  for (int64_t i = 0; i < count; ++i) {
    const int label = labels[static_cast<size_t>(i)];
    const DigitImage image = DrawDigit(label, MixSeed(key, static_cast<uint64_t>(i) + 1));
    datum.set_data(image.data(), image.size());
    datum.set_label(label);
    writer.Put(fmt::format("{:08d}", i), datum.SerializeAsString());
  }
}

}  // namespace

DigitImage DrawDigit(int digit, uint64_t key) {
  RandomSequence random(key);
  const std::span<const Glyph> styles = GlyphsOf(digit);
  Glyph glyph = styles[random.NextBelow(styles.size())];
  const Pose pose(random);
  const Wobble wobble(random);
  const double radius = Between(random, .8, 1.9);
  Canvas canvas{};
  for (Stroke& stroke : glyph) {
    for (Point& point : stroke.points) {
      point.x += .025 * random.NextGaussian();
      point.y += .025 * random.NextGaussian();
    }
    const std::vector<Point> trace = TracePoints(stroke);
    const double swell = Between(random, -.2, .2);  // the pen presses more at one end
    for (size_t i = 0; i + 1 < trace.size(); ++i) {
      const double along = static_cast<double>(i) / static_cast<double>(trace.size() - 1);
      DrawSegment(pose(wobble(trace[i])), pose(wobble(trace[i + 1])),
                  radius * (1 + swell * (2 * along - 1)), canvas);
    }
  }
  Blur(Between(random, 0, .5), canvas);
  const double strength = Between(random, .65, 1);
  return Print(canvas, strength, Between(random, 0, .1), random);
}

void WriteDigits(const DigitsOptions& options) {
  for (const auto& [name, count] : {std::pair("train", options.train), {"test", options.test}}) {
    if (count < 1) {
      throw ConfigError(fmt::format("digits: {} images for {}", count, name),
                        "ask for 1 image or more");
    }
  }
  // Both are opened before the first is written, so that neither stays alone.
  const std::filesystem::path out(options.out);
  const auto train = NewLmdbWriter((out / "digits_train_lmdb").string());
  const auto test = NewLmdbWriter((out / "digits_test_lmdb").string());
  WriteSet(MixSeed(options.seed, HashName("digits train")), options.train, *train);
  WriteSet(MixSeed(options.seed, HashName("digits test")), options.test, *test);
  train->Finish();
  test->Finish();
}

}  // namespace carafe
