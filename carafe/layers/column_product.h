// A convolution of one image as a matrix product with the columns of its windows, in groups; the
// machinery that Convolution and Deconvolution share, each using the other's backward as forward.
#pragma once

#include "carafe/core/blob.h"
#include "carafe/kernels/im2col.h"

namespace carafe {

// x is the side with the windows (geometry.channels, in..), y the other (features, out..), and the
// weights are (features, channels / groups, kernel..). Holds scratch memory; not thread-safe.
template <typename T>
class ColumnProduct {
 public:
  void Configure(const ColumnGeometry& geometry, int64_t features, int64_t groups);

  int64_t x_size() const { return geometry_.channels * geometry_.in_size(); }
  int64_t y_size() const { return features_ * geometry_.out_size(); }

  void Apply(Stream& stream, const T* weights, const T* x, T* y);            // y = W col(x)
  void ApplyTransposed(Stream& stream, const T* weights, const T* y, T* x);  // x = im(W^T y)
  void AddWeightGradient(Stream& stream, const T* x, const T* y, T* dw);     // dw += y col(x)^T

 private:
  // The columns of x: x itself where windows are single elements.
  const T* Columns(Stream& stream, const T* x);

  ColumnGeometry geometry_;
  int64_t features_ = 0, groups_ = 1;
  Blob<T> columns_;
};

}  // namespace carafe
