#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace carafe::golden {
namespace {

std::string Position(size_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const size_t dim = static_cast<size_t>(std::max<int64_t>(shape[axis], 1));
    place[axis] = static_cast<int64_t>(index % dim);
    index /= dim;
  }
  return fmt::format("({})", fmt::join(place, ", "));
}

// The worst element of an array.
struct Worst {
  double relative = 0, absolute = 0;
  size_t index = 0;
};

Worst FindWorst(const std::vector<double>& expected, const std::vector<double>& got) {
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double floor = std::max(0.05 * largest, 1e-30);
  Worst worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i]) || !std::isfinite(got[i])) {
      const bool same = (std::isnan(expected[i]) && std::isnan(got[i])) || expected[i] == got[i];
      if (!same) return {INFINITY, INFINITY, i};
      continue;
    }
    const double difference = std::abs(expected[i] - got[i]);
    worst.absolute = std::max(worst.absolute, difference);
    const double relative =
        difference <= 1e-8 ? 0 : difference / std::max(std::abs(expected[i]), floor);
    if (relative > worst.relative) {
      worst.relative = relative;
      worst.index = i;
    }
  }
  return worst;
}

}  // namespace

void Report::Compare(const std::string& what, const Array& expected, const Array& got,
                     const Tolerance& tolerance) {
  ++compared_;
  if (expected.is_text || got.is_text) {
    if (expected.texts != got.texts) {
      failures_.push_back(fmt::format("{}: expected [{}], got [{}]", what,
                                      fmt::join(expected.texts, " "), fmt::join(got.texts, " ")));
    }
    return;
  }
  if (expected.shape != got.shape || expected.values.size() != got.values.size()) {
    failures_.push_back(fmt::format("{}: expected shape ({}), got ({})", what,
                                    fmt::join(expected.shape, ", "), fmt::join(got.shape, ", ")));
    return;
  }
  const Worst worst = FindWorst(expected.values, got.values);
  if (worst.relative <= tolerance.relative || worst.absolute <= tolerance.absolute) return;
  failures_.push_back(fmt::format("{}: relative error {:.3g} at {}: expected {:.9g}, got {:.9g}",
                                  what, worst.relative, Position(worst.index, expected.shape),
                                  expected.values[worst.index], got.values[worst.index]));
}

void Report::Check(bool condition, const std::string& what) {
  ++compared_;
  if (!condition) failures_.push_back(what);
}

}  // namespace carafe::golden
