#include "carafe/kernels/small_batch.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "carafe/base/float8.h"
#include "carafe/kernels/cpu_for.h"

namespace carafe {
namespace {

float Sum8(Float8 v) {
  typedef float Float4 __attribute__((vector_size(16)));
  const Float4 low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  const Float4 high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  const Float4 four = low + high;
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// y[r][c] += x[r] . w[c] over `count` elements; steps are those between rows.
template <int R, int C>
inline void DotTile(int64_t count, const float* x, int64_t x_step, const float* w, int64_t w_step,
                    float* y, int64_t y_step) {
  Float8 sums[R][C];
  for (auto& row : sums) std::fill(row, row + C, All8(0.0f));
  const auto add = [&](const auto& load, int64_t k) {
    Float8 weights[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) weights[c] = load(w + c * w_step + k);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Float8 value = load(x + r * x_step + k);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[r][c] = MulAdd8(value, weights[c], sums[r][c]);
    }
  };
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) add([](const float* p) { return Load8(p); }, k);
  if (k < count) add([&](const float* p) { return LoadPart8(p, count - k); }, k);
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) y[r * y_step + c] += Sum8(sums[r][c]);
  }
}

// All rows of x by C rows of W.
template <int C>
void DotRows(const SmallBatch& s, int64_t count, const float* x, int64_t step, const float* w,
             float* y) {
  int64_t r = 0;
  for (; r + 3 <= s.rows; r += 3) {
    DotTile<3, C>(count, x + r * step, step, w, s.inner, y + r * s.width, s.width);
  }
  if (s.rows - r == 2) {
    DotTile<2, C>(count, x + r * step, step, w, s.inner, y + r * s.width, s.width);
  } else if (s.rows - r == 1) {
    DotTile<1, C>(count, x + r * step, step, w, s.inner, y + r * s.width, s.width);
  }
}

// Memory of the calling thread that other threads of its loops may read.
std::vector<float>& Shared() {
  thread_local std::vector<float> memory;
  return memory;
}
// Memory of one thread of a loop.
float* Own(size_t count) {
  thread_local std::vector<float> memory;
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

// dy (rows, width) as (width, rows).
const float* Transposed(const SmallBatch& s, const float* dy) {
  std::vector<float>& memory = Shared();
  const size_t count = static_cast<size_t>(s.rows * s.width);
  if (memory.size() < count) memory.resize(count);
  constexpr int64_t kTile = 16;
  for (int64_t first = 0; first < s.width; first += kTile) {
    const int64_t end = std::min(first + kTile, s.width);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t n = first; n < end; ++n) {
        memory[static_cast<size_t>(n * s.rows + r)] = dy[r * s.width + n];
      }
    }
  }
  return memory.data();
}

// sums[r][0..V-1] += sum over c of dy[c][r] * w[c], V vectors side by side.
template <int C, int V, typename Load>
inline void AddWeightedRows(int64_t rows, const float* dy, const float* w, int64_t w_step,
                            float* sums, int64_t sums_step, const Load& load) {
  Float8 weights[C][V];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) weights[c][v] = load(w + c * w_step + 8 * v);
  }
  for (int64_t r = 0; r < rows; ++r) {
    Float8 sum[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[v] = Load8(sums + r * sums_step + 8 * v);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Float8 factor = All8(dy[c * rows + r]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[v] = MulAdd8(factor, weights[c][v], sum[v]);
    }
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store8(sums + r * sums_step + 8 * v, sum[v]);
  }
}

// Columns of dx that a thread forms at a time: as long runs through W as the cache allows.
int64_t DataPiece(const SmallBatch& s) {
  return std::clamp<int64_t>(8192 / s.rows / 16 * 16, 128, 2048);
}

template <int C>
void AddWeightedPieces(const SmallBatch& s, int64_t columns, const float* dy, const float* w,
                       float* sums, int64_t step) {
  int64_t k = 0;
  for (; k + 16 <= columns; k += 16) {
    AddWeightedRows<C, 2>(s.rows, dy, w + k, s.inner, sums + k, step,
                          [](const float* p) { return Load8(p); });
  }
  for (; k < columns; k += 8) {
    AddWeightedRows<C, 1>(s.rows, dy, w + k, s.inner, sums + k, step,
                          [&](const float* p) { return LoadPart8(p, columns - k); });
  }
}

// C rows by 16 columns of dW += dy^T x; dy is transposed, x a packed piece.
template <int C>
[[gnu::always_inline]] inline void AddOuterTile(int64_t rows, const float* dy, const float* x,
                                                int64_t x_step, float* dw, int64_t dw_step) {
  Float8 sums[C][2];
#pragma GCC unroll 6
  for (int c = 0; c < C; ++c) {
    sums[c][0] = Load8(dw + c * dw_step);
    sums[c][1] = Load8(dw + c * dw_step + 8);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const Float8 a = Load8(x + r * x_step), b = Load8(x + r * x_step + 8);
#pragma GCC unroll 6
    for (int c = 0; c < C; ++c) {
      const Float8 factor = All8(dy[c * rows + r]);
      sums[c][0] = MulAdd8(factor, a, sums[c][0]);
      sums[c][1] = MulAdd8(factor, b, sums[c][1]);
    }
  }
#pragma GCC unroll 6
  for (int c = 0; c < C; ++c) {
    Store8(dw + c * dw_step, sums[c][0]);
    Store8(dw + c * dw_step + 8, sums[c][1]);
  }
}

// Columns of x that are packed at a time: as long runs through dW as the cache allows.
int64_t WeightPiece(const SmallBatch& s) {
  return std::clamp<int64_t>(32768 / s.rows / 16 * 16, 256, 4096);
}

template <int C>
void AddOuterRows(const SmallBatch& s, int64_t columns, const float* dy, const float* x,
                  int64_t step, float* dw, int64_t dw_step) {
  int64_t k = 0;
  for (; k + 16 <= columns; k += 16) {
    AddOuterTile<C>(s.rows, dy, x + k, step, dw + k, dw_step);
  }
  for (; k < columns; ++k) {
    for (int c = 0; c < C; ++c) {
      float sum = dw[c * dw_step + k];
      for (int64_t r = 0; r < s.rows; ++r) sum += dy[c * s.rows + r] * x[r * step + k];
      dw[c * dw_step + k] = sum;
    }
  }
}

constexpr int64_t kOuterRows = 6;  // rows of dW per tile

// A piece of x that was packed, for some rows of dW.
struct OuterPiece {
  int64_t first_row, end_row, first_column, columns, step;
  const float* factors;  // dy^T
  float* packed;
};

// Calls visit(piece) for all of dW; it may use `room` floats after the packed ones.
template <typename Visit>
void ForOuterPieces(Stream& stream, const SmallBatch& s, const float* dy, const float* x,
                    int64_t room, const Visit& visit) {
  constexpr int64_t kBlock = 16 * kOuterRows;  // rows of dW per task
  const float* factors = Transposed(s, dy);
  const int64_t blocks = (s.width + kBlock - 1) / kBlock;
  const int64_t most = WeightPiece(s), step = most + 16;  // not a multiple of a page
  CpuFor(stream, blocks, kBlock * s.inner, [&](int64_t block) {
    float* packed = Own(static_cast<size_t>(s.rows * step + room));
    for (int64_t k = 0; k < s.inner; k += most) {
      const int64_t columns = std::min(most, s.inner - k);
      for (int64_t r = 0; r < s.rows; ++r) {
        std::copy_n(x + r * s.inner + k, columns, packed + r * step);
      }
      visit(OuterPiece{block * kBlock, std::min((block + 1) * kBlock, s.width), k, columns, step,
                       factors, packed});
    }
  });
}

}  // namespace

bool WinsForward(const SmallBatch& s) { return s.rows <= 8 && s.inner >= 64; }
bool WinsBackwardData(const SmallBatch& s) { return s.rows > 0 && s.rows <= 4 && s.inner >= 64; }
bool WinsBackwardWeights(const SmallBatch& s) {
  return s.rows > 0 && s.rows <= 8 && s.width * s.inner >= 1000000;
}

void SmallBatchForward(Stream& stream, const SmallBatch& s, const float* x, const float* w,
                       const float* bias, float* y) {
  constexpr int64_t kPiece = 1024;  // three rows of x and four of W lie in the first-level cache
  constexpr int64_t kRows = 4;
  // Rows of x that are a whole number of pages apart would all want the same lines of the cache.
  const int64_t step = (s.inner + 15) / 16 * 16 + 16;
  std::vector<float>& packed_x = Shared();
  if (packed_x.size() < static_cast<size_t>(s.rows * step)) {
    packed_x.resize(static_cast<size_t>(s.rows * step));
  }
  float* packed = packed_x.data();
  for (int64_t r = 0; r < s.rows; ++r) std::copy_n(x + r * s.inner, s.inner, packed + r * step);
  const int64_t blocks = (s.width + kRows - 1) / kRows;
  CpuFor(stream, blocks, kRows * s.inner * std::max<int64_t>(s.rows / 4, 1), [&](int64_t block) {
    const int64_t first = block * kRows, n = std::min(kRows, s.width - first);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = first; c < first + n; ++c) {
        y[r * s.width + c] = bias == nullptr ? 0.0f : bias[c];
      }
    }
    for (int64_t k = 0; k < s.inner; k += kPiece) {
      const int64_t count = std::min(kPiece, s.inner - k);
      const float* rows = w + first * s.inner + k;
      if (n == kRows) {
        DotRows<kRows>(s, count, packed + k, step, rows, y + first);
      } else {
        for (int64_t c = 0; c < n; ++c) {
          DotRows<1>(s, count, packed + k, step, rows + c * s.inner, y + first + c);
        }
      }
    }
  });
}

void SmallBatchBackwardData(Stream& stream, const SmallBatch& s, const float* dy, const float* w,
                            float* dx) {
  const float* factors = Transposed(s, dy);
  const int64_t most = DataPiece(s), pieces = (s.inner + most - 1) / most;
  CpuFor(stream, pieces, most * s.width, [&](int64_t piece) {
    const int64_t k = piece * most, columns = std::min(most, s.inner - k);
    float* sums = Own(static_cast<size_t>(s.rows * most));
    std::fill(sums, sums + s.rows * most, 0.0f);
    int64_t n = 0;
    for (; n + 4 <= s.width; n += 4) {
      AddWeightedPieces<4>(s, columns, factors + n * s.rows, w + n * s.inner + k, sums, most);
    }
    for (; n < s.width; ++n) {
      AddWeightedPieces<1>(s, columns, factors + n * s.rows, w + n * s.inner + k, sums, most);
    }
    for (int64_t r = 0; r < s.rows; ++r) {
      std::copy_n(sums + r * most, columns, dx + r * s.inner + k);
    }
  });
}

void SmallBatchBackwardWeights(Stream& stream, const SmallBatch& s, const float* dy, const float* x,
                               float* dw) {
  ForOuterPieces(stream, s, dy, x, 0, [&](const OuterPiece& p) {
    int64_t n = p.first_row;
    const auto add = [&]<int C>(std::integral_constant<int, C>) {
      AddOuterRows<C>(s, p.columns, p.factors + n * s.rows, p.packed, p.step,
                      dw + n * s.inner + p.first_column, s.inner);
    };
    for (; n + kOuterRows <= p.end_row; n += kOuterRows) {
      add(std::integral_constant<int, kOuterRows>());
    }
    for (; n < p.end_row; ++n) add(std::integral_constant<int, 1>());
  });
}

void SmallBatchWeightParts(Stream& stream, const SmallBatch& s, const float* dy, const float* x,
                           const WeightPart& take) {
  const int64_t tile_step = WeightPiece(s), tile_floats = kOuterRows * tile_step;
  ForOuterPieces(stream, s, dy, x, tile_floats, [&](const OuterPiece& p) {
    Stream own(stream.device(), 1);
    float* tile = p.packed + s.rows * p.step;
    std::fill(tile, tile + tile_floats, 0.0f);
    int64_t n = p.first_row;
    const auto hand_over = [&]<int C>(std::integral_constant<int, C>) {
      AddOuterRows<C>(s, p.columns, p.factors + n * s.rows, p.packed, p.step, tile, tile_step);
      for (int64_t c = 0; c < C; ++c) {
        take(own, (n + c) * s.inner + p.first_column, p.columns, tile + c * tile_step);
      }
    };
    for (; n + kOuterRows <= p.end_row; n += kOuterRows) {
      hand_over(std::integral_constant<int, kOuterRows>());
    }
    for (; n < p.end_row; ++n) hand_over(std::integral_constant<int, 1>());
  });
}

}  // namespace carafe
