#include "carafe/core/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"

namespace carafe {
namespace {

// Elements, so that even as doubles the bytes fit in 63 bits.
constexpr int64_t kMostElements = INT64_MAX / static_cast<int64_t>(sizeof(double));

}  // namespace

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxAxes) {
    throw ConfigError(fmt::format("a blob has {} axes", dims.size()),
                      fmt::format("use at most {} axes", kMaxAxes));
  }
  for (const int64_t dim : dims) {
    if (dim < 0) {
      throw ConfigError(fmt::format("a blob has the size {} along axis {}", dim, rank_),
                        "sizes must not be negative");
    }
    if (dim > 0 && count_ > kMostElements / dim) {
      throw ConfigError(fmt::format("a blob of shape {} has more elements than 64 bits can count",
                                    fmt::join(dims, " x ")),
                        "check the sizes; one of them is far too large");
    }
    count_ *= dim;
    dims_[rank_++] = dim;
  }
}

int64_t Shape::Count(int from, int to) const {
  Ensure(0 <= from && from <= to && to <= rank_, "axis range out of bounds");
  int64_t count = 1;
  for (int axis = from; axis < to; ++axis) count *= dims_[axis];
  return count;
}

int Shape::CanonicalAxis(int axis) const {
  if (axis < -rank_ || axis >= rank_) {
    throw ConfigError(
        fmt::format("axis {} is out of range for a blob of shape {}", axis, ToString()),
        rank_ == 0 ? "this blob is a single number without axes: it cannot be used here"
                   : fmt::format("use an axis from {} to {}", -rank_, rank_ - 1));
  }
  return axis < 0 ? axis + rank_ : axis;
}

Shape Shape::First(int axes) const { return Shape(dims().first(static_cast<size_t>(axes))); }

Shape Shape::Append(int64_t dim) const {
  std::vector<int64_t> dims(this->dims().begin(), this->dims().end());
  dims.push_back(dim);
  return Shape(dims);
}

Shape Shape::With(int axis, int64_t dim) const {
  std::vector<int64_t> dims(this->dims().begin(), this->dims().end());
  dims[static_cast<size_t>(CanonicalAxis(axis))] = dim;
  return Shape(dims);
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

std::string Shape::ToString() const {
  std::string text;
  for (const int64_t dim : dims()) text += fmt::format("{} ", dim);
  return text + fmt::format("({})", count_);
}

}  // namespace carafe
