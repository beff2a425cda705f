// Products with one matrix on the right that is used often: the weights of a recurrent layer in all
// its steps, or the inputs that a gradient is made of. Float on the CPU packs it once; anything
// else goes to Gemm.
#pragma once

#include <type_traits>

#include "carafe/core/blob.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/packed_gemm.h"

namespace carafe {

template <typename T>
class PackedProduct {
 public:
  // B (inner, width) is stored like that, or as (width, inner) with kTrans. `rows` is how many rows
  // it will be multiplied by in all: few are not worth packing. It decides the order of the sums,
  // so it must not depend on the number of workers (worker_rows.h). `packed` is memory that this
  // product uses while it lives.
  PackedProduct(Stream& stream, Op op, int64_t inner, int64_t width, int64_t rows, const T* b,
                Blob<T>* packed)
      : stream_(stream), op_(op), inner_(inner), width_(width), b_(b) {
    if constexpr (std::is_same_v<T, float>) {
      if (!stream.on_cpu() || rows < kRowsWorthIt) return;
      packed->Reshape({PackedCount(inner, width)});
      float* to = packed->mutable_data(stream);
      PackMatrix(stream, op, inner, width, b, to);
      packed_ = to;
    }
  }

  // y (rows, width) = A B, or y += A B. A is stored as (rows, inner), or as (inner, rows) with
  // kTrans.
  void Multiply(Op op, int64_t rows, const T* a, bool add, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      if (packed_ != nullptr) {
        const Start start = add ? Start{y, width_} : Start{};
        return PackedGemm(stream_, op, rows, width_, inner_, a, packed_, start, y);
      }
    }
    Gemm<T>(stream_, op, op_, rows, width_, inner_, 1, a, b_, add ? T(1) : T(0), y);
  }
  // y = A B + row, A (rows, inner); `row` is added to each row.
  void MultiplyAddRow(int64_t rows, const T* a, const T* row, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      if (packed_ != nullptr) {
        return PackedGemm(stream_, Op::kNone, rows, width_, inner_, a, packed_, {row, 0}, y);
      }
    }
    Multiply(Op::kNone, rows, a, /*add=*/false, y);
    AddToRows<T>(stream_, rows, width_, row, y);
  }

 private:
  static constexpr int64_t kRowsWorthIt = 32;
  Stream& stream_;
  const Op op_;
  const int64_t inner_, width_;
  const T* const b_;
  const T* packed_ = nullptr;
};

}  // namespace carafe
