#include "carafe/layers/column_product.h"

#include "carafe/kernels/gemm.h"

namespace carafe {

template <typename T>
void ColumnProduct<T>::Configure(const ColumnGeometry& geometry, int64_t features, int64_t groups) {
  geometry_ = geometry;
  features_ = features;
  groups_ = groups;
  if (!geometry.is_identity()) columns_.Reshape({geometry.rows(), geometry.out_size()});
}

template <typename T>
const T* ColumnProduct<T>::Columns(Stream& stream, const T* x) {
  if (geometry_.is_identity()) return x;
  T* columns = columns_.mutable_data(stream);
  Im2col(stream, geometry_, x, columns);
  return columns;
}

template <typename T>
void ColumnProduct<T>::Apply(Stream& stream, const T* weights, const T* x, T* y) {
  const int64_t m = features_ / groups_, n = geometry_.out_size(), k = geometry_.rows() / groups_;
  const T* columns = Columns(stream, x);
  for (int64_t g = 0; g < groups_; ++g) {
    Gemm<T>(stream, Op::kNone, Op::kNone, m, n, k, 1, weights + g * m * k, columns + g * k * n, 0,
            y + g * m * n);
  }
}

template <typename T>
void ColumnProduct<T>::ApplyTransposed(Stream& stream, const T* weights, const T* y, T* x) {
  const int64_t m = features_ / groups_, n = geometry_.out_size(), k = geometry_.rows() / groups_;
  const bool identity = geometry_.is_identity();
  T* columns = identity ? x : columns_.mutable_data(stream);
  for (int64_t g = 0; g < groups_; ++g) {
    Gemm<T>(stream, Op::kTrans, Op::kNone, k, n, m, 1, weights + g * m * k, y + g * m * n, 0,
            columns + g * k * n);
  }
  if (!identity) Col2im<T>(stream, geometry_, columns, x);
}

template <typename T>
void ColumnProduct<T>::AddWeightGradient(Stream& stream, const T* x, const T* y, T* dw) {
  const int64_t m = features_ / groups_, n = geometry_.out_size(), k = geometry_.rows() / groups_;
  const T* columns = Columns(stream, x);
  for (int64_t g = 0; g < groups_; ++g) {
    Gemm<T>(stream, Op::kNone, Op::kTrans, m, k, n, 1, y + g * m * n, columns + g * k * n, 1,
            dw + g * m * k);
  }
}

template class ColumnProduct<float>;
template class ColumnProduct<double>;

}  // namespace carafe
