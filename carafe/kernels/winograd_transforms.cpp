#include "carafe/kernels/winograd_transforms.h"

#include <algorithm>
#include <cstring>

#include "carafe/kernels/winograd_gemm.h"
#include "carafe/kernels/winograd_transform.h"

namespace carafe::winograd {
namespace {

// f(tile number, tile, rows, cols) for all tiles. Full tiles have a function of their own, in which
// the sizes are constants: registers are better used than in one large function.
template <int m, typename F>
__attribute__((noinline)) void ForFullTiles(const TileBlock& block, const TileRun& run,
                                            const F& f) {
  for (int64_t t = run.first; t < run.first + run.count; ++t) {
    f(t, block.tiles[t], std::integral_constant<int, m>(), std::integral_constant<int, m>());
  }
}
template <typename F>
__attribute__((noinline)) void ForSmallTiles(const TileBlock& block, const TileRun& run,
                                             const F& f) {
  for (int64_t t = run.first; t < run.first + run.count; ++t) {
    f(t, block.tiles[t], run.rows, run.cols);
  }
}
template <int m, typename F>
void ForEachTile(const TileBlock& block, const F& f) {
  for (const TileRun& run : block.runs) {
    if (run.rows == m && run.cols == m) {
      ForFullTiles<m>(block, run, f);
    } else {
      ForSmallTiles(block, run, f);
    }
  }
}

// h x w pixels of 8 channels, from (y, x) on, 0 outside of the image.
void CopyWithBorder(const float* image, int64_t image_h, int64_t image_w, int64_t y, int64_t x,
                    int h, int w, float* to) {
  for (int64_t i = y; i < y + h; ++i) {
    for (int64_t j = x; j < x + w; ++j, to += kVector) {
      const bool inside = i >= 0 && i < image_h && j >= 0 && j < image_w;
      Store8(to, inside ? Load8(image + (i * image_w + j) * kVector) : All8(0.0f));
    }
  }
}

template <int m, int r>
void TransformInput(const TileBlock& block, Plane<const float> src, int64_t pad_h, int64_t pad_w,
                    float* v, size_t v_stride) {
  const auto transform = [&](int64_t t, const Tile& tile, auto rows,
                             auto cols) CARAFE_INLINE_LAMBDA {
    const int h = rows + r - 1, w = cols + r - 1;
    const float* image = src.data + static_cast<size_t>(tile.image) * src.image_stride;
    const int64_t y = tile.y - pad_h, x = tile.x - pad_w;
    const float* from = image + (y * src.w + x) * kVector;
    int64_t from_stride = src.w * kVector;
    alignas(32) float border[(m + r - 1) * (m + r - 1) * kVector];
    if (y < 0 || x < 0 || y + h > src.h || x + w > src.w) {
      CopyWithBorder(image, src.h, src.w, y, x, h, w, border);
      from = border;
      from_stride = w * kVector;
    }
    float* to = v + t * kVector;
    TransformTile<InputMaps<m, r>, m>(
        rows, cols,
        [&](int i, int j)
            CARAFE_INLINE_LAMBDA { return Load8(from + i * from_stride + j * kVector); },
        [&](int i, int j, Float8 value) CARAFE_INLINE_LAMBDA {
          Store8(to + static_cast<size_t>(i * (m + r - 1) + j) * v_stride, value);
        });
  };
  ForEachTile<m>(block, transform);
}

// Adds h x w pixels of 8 channels to the image from (y, x) on, but for those outside of it.
void AddWithBorder(const float* from, int64_t image_h, int64_t image_w, int64_t y, int64_t x, int h,
                   int w, float* image) {
  for (int64_t i = y; i < y + h; ++i) {
    for (int64_t j = x; j < x + w; ++j, from += kVector) {
      if (i < 0 || i >= image_h || j < 0 || j >= image_w) continue;
      float* to = image + (i * image_w + j) * kVector;
      Store8(to, Load8(to) + Load8(from));
    }
  }
}

template <int m, int r>
void TransformInputAdjoint(const TileBlock& block, const float* m_data, size_t m_stride,
                           int64_t pad_h, int64_t pad_w, Plane<float> d_src) {
  const auto transform = [&](int64_t t, const Tile& tile, auto rows,
                             auto cols) CARAFE_INLINE_LAMBDA {
    const int h = rows + r - 1, w = cols + r - 1;
    const float* from = m_data + t * kVector;
    float* image = d_src.data + static_cast<size_t>(tile.image) * d_src.image_stride;
    const int64_t y = tile.y - pad_h, x = tile.x - pad_w;
    const auto load = [&](int i, int j) CARAFE_INLINE_LAMBDA {
      return Load8(from + static_cast<size_t>(i * (m + r - 1) + j) * m_stride);
    };
    alignas(32) float border[(m + r - 1) * (m + r - 1) * kVector];
    TransformTile<InputAdjointMaps<m, r>, m>(rows, cols, load,
                                             [&](int i, int j, Float8 value) CARAFE_INLINE_LAMBDA {
                                               Store8(border + (i * w + j) * kVector, value);
                                             });
    if (y < 0 || x < 0 || y + h > d_src.h || x + w > d_src.w) {
      AddWithBorder(border, d_src.h, d_src.w, y, x, h, w, image);
      return;
    }
    float* to = image + (y * d_src.w + x) * kVector;
    for (int i = 0; i < h; ++i) {
      for (int j = 0; j < w; ++j) {
        float* pixel = to + (i * d_src.w + j) * kVector;
        Store8(pixel, Load8(pixel) + Load8(border + (i * w + j) * kVector));
      }
    }
  };
  ForEachTile<m>(block, transform);
}

template <int m, int r>
void TransformOutput(const TileBlock& block, const float* m_data, size_t m_stride,
                     const float* bias, float lowest, Plane<float> dst) {
  const Float8 add = Load8(bias), low = All8(lowest);
  const auto transform = [&](int64_t t, const Tile& tile, auto rows,
                             auto cols) CARAFE_INLINE_LAMBDA {
    const float* from = m_data + t * kVector;
    float* to = dst.data + static_cast<size_t>(tile.image) * dst.image_stride +
                (tile.y * dst.w + tile.x) * kVector;
    TransformTile<OutputMaps<m, r>, m>(
        rows, cols,
        [&](int i, int j) CARAFE_INLINE_LAMBDA {
          return Load8(from + static_cast<size_t>(i * (m + r - 1) + j) * m_stride);
        },
        [&](int i, int j, Float8 value) CARAFE_INLINE_LAMBDA {
          Store8(to + (i * dst.w + j) * kVector, Max8(low, value + add));
        });
  };
  ForEachTile<m>(block, transform);
}

template <int m, int r>
void TransformOutputAdjoint(const TileBlock& block, Plane<const float> d_dst, float* z,
                            size_t z_stride) {
  const auto transform = [&](int64_t t, const Tile& tile, auto rows,
                             auto cols) CARAFE_INLINE_LAMBDA {
    const float* from = d_dst.data + static_cast<size_t>(tile.image) * d_dst.image_stride +
                        (tile.y * d_dst.w + tile.x) * kVector;
    float* to = z + t * kVector;
    TransformTile<OutputAdjointMaps<m, r>, m>(
        rows, cols,
        [&](int i, int j)
            CARAFE_INLINE_LAMBDA { return Load8(from + (i * d_dst.w + j) * kVector); },
        [&](int i, int j, Float8 value) CARAFE_INLINE_LAMBDA {
          Store8(to + static_cast<size_t>(i * (m + r - 1) + j) * z_stride, value);
        });
  };
  ForEachTile<m>(block, transform);
}

// taps[in][k][out] = weights[out][in][k] for 8 x 8 channels, `outs` and `ins` of which exist; the
// others are 0. weights points at the first pair; filters of one out channel are contiguous.
template <int taps_count>
void LoadFilters(const float* weights, int64_t in_channels, int64_t outs, int64_t ins,
                 float* taps) {
  const auto row_stride = in_channels * taps_count;
  alignas(32) float copy[kVector][kVector * taps_count];
  const float* rows = weights;
  int64_t stride = row_stride;
  if (outs < kVector || ins < kVector) {
    std::memset(copy, 0, sizeof copy);
    for (int64_t o = 0; o < std::min<int64_t>(outs, kVector); ++o) {
      std::memcpy(
          copy[o], weights + o * row_stride,
          sizeof(float) * static_cast<size_t>(std::min<int64_t>(ins, kVector) * taps_count));
    }
    rows = copy[0];
    stride = kVector * taps_count;
  }
  for (int block = 0; block < taps_count; ++block, rows += kVector, taps += kVector * kVector) {
    Float8 square[kVector];
    for (int o = 0; o < kVector; ++o) square[o] = Load8(rows + o * stride);
    Transpose8(square);
    for (int i = 0; i < kVector; ++i) Store8(taps + i * kVector, square[i]);
  }
}

// taps[out][k][in] from taps[in][k][out], k counted backwards if `turned`.
template <int taps_count>
void SwapFilters(const float* from, bool turned, float* to) {
  for (int k = 0; k < taps_count; ++k) {
    Float8 square[kVector];
    for (int i = 0; i < kVector; ++i) square[i] = Load8(from + (i * taps_count + k) * kVector);
    Transpose8(square);
    for (int o = 0; o < kVector; ++o) {
      Store8(to + (o * taps_count + (turned ? taps_count - 1 - k : k)) * kVector, square[o]);
    }
  }
}

template <int m, int r>
void TransformFilters(const FilterMatrixView& filters, int64_t first_col, float* u,
                      size_t u_stride) {
  constexpr int kTaps = r * r, points = m + r - 1;
  alignas(32) float loaded[kVector * kTaps * kVector], swapped[kVector * kTaps * kVector];
  for (int64_t row = 0; row < filters.rows(); row += kVector) {
    const int64_t rows = std::min<int64_t>(filters.rows() - row, kVector);
    for (int half = 0; half < kOutChannels; half += kVector) {
      const int64_t col = first_col + half;
      const int64_t out = filters.backward ? row : col, in = filters.backward ? col : row;
      if (col < filters.cols()) {
        LoadFilters<kTaps>(filters.weights + (out * filters.in_channels + in) * kTaps,
                           filters.in_channels, filters.out_channels - out,
                           filters.in_channels - in, loaded);
        if (filters.backward) SwapFilters<kTaps>(loaded, filters.turned, swapped);
      } else {
        std::memset(filters.backward ? swapped : loaded, 0, sizeof loaded);
      }
      for (int64_t i = 0; i < rows; ++i) {
        const float* from = (filters.backward ? swapped : loaded) + i * kTaps * kVector;
        float* to = u + (row + i) * kOutChannels + half;
        Transform2d<FilterMap<m, r>, FilterMap<m, r>>(
            [&](auto y, auto x)
                CARAFE_INLINE_LAMBDA { return Load8(from + (y * r + x) * kVector); },
            [&](auto y, auto x, Float8 value) CARAFE_INLINE_LAMBDA {
              Store8(to + static_cast<size_t>(y * points + x) * u_stride, value);
            });
      }
    }
  }
}

template <int m, int r>
void TransformFiltersAdjoint(const float* d, size_t d_stride, size_t d_row, int64_t outs,
                             int64_t ins, int64_t in_channels, float* d_weights) {
  constexpr int kTaps = r * r, points = m + r - 1;
  alignas(32) float taps[kVector * kTaps * kVector];  // [in][k][out], then in place [out][in, k]
  for (int64_t in = 0; in < ins; in += kVector) {
    const int64_t n = std::min<int64_t>(ins - in, kVector);
    for (int64_t i = 0; i < n; ++i) {
      const float* from = d + static_cast<size_t>(in + i) * d_row;
      float* to = taps + i * kTaps * kVector;
      Transform2d<FilterAdjointMap<m, r>, FilterAdjointMap<m, r>>(
          [&](auto y, auto x) CARAFE_INLINE_LAMBDA {
            return Load8(from + static_cast<size_t>(y * points + x) * d_stride);
          },
          [&](auto y, auto x, Float8 value)
              CARAFE_INLINE_LAMBDA { Store8(to + (y * r + x) * kVector, value); });
    }
    const int64_t columns = n * kTaps;
    for (int64_t column = 0; column < columns; column += kVector) {
      Float8 square[kVector];
      for (int k = 0; k < kVector; ++k) square[k] = Load8(taps + (column + k) * kVector);
      Transpose8(square);
      for (int64_t o = 0; o < std::min<int64_t>(outs, kVector); ++o) {
        float* to = d_weights + (o * in_channels + in) * kTaps + column;
        if (column + kVector <= columns) {
          Store8(to, Load8(to) + square[o]);
        } else {
          float values[kVector];
          Store8(values, square[o]);
          for (int64_t k = 0; k < columns - column; ++k) to[k] += values[k];
        }
      }
    }
  }
}

template <int m, int r>
constexpr Transforms kTransforms = {m,
                                    r,
                                    TransformInput<m, r>,
                                    TransformInputAdjoint<m, r>,
                                    TransformOutput<m, r>,
                                    TransformOutputAdjoint<m, r>,
                                    TransformFilters<m, r>,
                                    TransformFiltersAdjoint<m, r>};

}  // namespace

const Transforms& TransformsOf(WinogradTile tile) {
  switch (tile) {
    case WinogradTile::kF4x4_3x3:
      return kTransforms<4, 3>;
    case WinogradTile::kF2x2_3x3:
      return kTransforms<2, 3>;
    case WinogradTile::kF2x2_5x5:
      return kTransforms<2, 5>;
    case WinogradTile::kF4x4_5x5:
      return kTransforms<4, 5>;
  }
  return kTransforms<4, 3>;
}

}  // namespace carafe::winograd
