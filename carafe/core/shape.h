// The extent of an N-dimensional array: up to 32 axes of 64-bit sizes whose product is checked
// against overflow.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace carafe {

class Shape {
 public:
  static constexpr int kMaxAxes = 32;

  Shape() = default;  // no axes: a scalar, count 1
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  // Throws ConfigError for a negative size, too many axes, or a product beyond 2^63-1 bytes of
  // doubles.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const {
    return dims_[CanonicalAxis(axis)];
  }  // negative: from the end
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t Count() const { return count_; }
  int64_t Count(int from) const { return Count(from, rank_); }  // product of axes [from, rank)
  int64_t Count(int from, int to) const;
  // 0 <= result < rank for -rank <= axis < rank; throws ConfigError otherwise.
  int CanonicalAxis(int axis) const;

  Shape First(int axes) const;              // the leading `axes` axes
  Shape Append(int64_t dim) const;          // one more axis at the end
  Shape With(int axis, int64_t dim) const;  // one axis replaced
  // Caffe's num/channels/height/width: 1 for an axis that is not there.
  int64_t LegacyDim(int axis) const { return axis < rank_ ? dims_[axis] : 1; }

  bool operator==(const Shape& other) const;
  std::string ToString() const;  // Caffe's log form: "64 1 28 28 (50176)"

 private:
  int rank_ = 0;
  int64_t count_ = 1;
  std::array<int64_t, kMaxAxes> dims_{};
};

using Shapes = std::vector<Shape>;

}  // namespace carafe
