// B lies in panels of 16 columns, (n / 16, k, 16) with zeros beyond n. A panel is multiplied by six
// rows of A at a time: twelve sums in registers.
#include "carafe/kernels/packed_gemm.h"

#include <algorithm>

#include "carafe/kernels/float8.h"

namespace carafe {
namespace {

constexpr int64_t kPanel = 16, kRows = 6;
constexpr int64_t kPiece = 512;  // of k: that much of a panel lies in the first-level cache

int64_t Panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

// c (R, 16) (+)= a (R, k) b (k, 16), the first `columns` of it. Rows of a are not packed: each
// element is broadcast once per panel either way.
template <int R>
inline void Tile(int64_t k, const float* a, int64_t a_step, const float* b, int64_t columns,
                 bool add, float* c, int64_t c_step) {
  Float8 sums[R][2];
  const float* row[R];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    sums[r][0] = add ? LoadPart8(c + r * c_step, columns) : All8(0.0f);
    sums[r][1] = add && columns > 8 ? LoadPart8(c + r * c_step + 8, columns - 8) : All8(0.0f);
    row[r] = a + r * a_step;
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < k; ++i) {
    Float8 first = Load8(b + i * kPanel), second = Load8(b + i * kPanel + 8);
    Hold8(first);
    Hold8(second);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Float8 factor = All8(row[r][i]);
      sums[r][0] = MulAdd8(factor, first, sums[r][0]);
      sums[r][1] = MulAdd8(factor, second, sums[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    StorePart8(c + r * c_step, columns, sums[r][0]);
    if (columns > 8) StorePart8(c + r * c_step + 8, columns - 8, sums[r][1]);
  }
}

using TileFunction = decltype(&Tile<1>);
constexpr TileFunction kTiles[kRows] = {Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>, Tile<6>};

// Block i of the m rows: blocks are as equal as can be, so that none has one row alone.
struct RowBlocks {
  int64_t m, count;
  explicit RowBlocks(int64_t rows) : m(rows), count((rows + kRows - 1) / kRows) {}
  int64_t first(int64_t i) const { return m * i / count; }
};

}  // namespace

int64_t PackedCount(int64_t k, int64_t n) { return Panels(n) * kPanel * k; }

void PackMatrix(Stream& stream, Op op, int64_t k, int64_t n, const float* b, float* packed) {
  CpuFor(stream, Panels(n), k * kPanel, [&](int64_t panel) {
    float* to = packed + panel * k * kPanel;
    const int64_t first = panel * kPanel, columns = std::min(kPanel, n - first);
    if (columns < kPanel) std::fill(to, to + k * kPanel, 0.0f);
    for (int64_t from = 0; from < k; from += kPanel) {  // by squares, for the cache's sake
      const int64_t end = std::min(from + kPanel, k);
      if (op == Op::kNone) {
        for (int64_t i = from; i < end; ++i)
          std::copy_n(b + i * n + first, columns, to + i * kPanel);
      } else {
        for (int64_t c = 0; c < columns; ++c) {
          for (int64_t i = from; i < end; ++i) to[i * kPanel + c] = b[(first + c) * k + i];
        }
      }
    }
  });
}

void PackedGemm(Stream& stream, int64_t m, int64_t n, int64_t k, const float* a,
                const float* packed, bool add, float* c) {
  if (m == 0 || n == 0) return;
  const RowBlocks blocks(m);
  CpuFor(stream, Panels(n), std::max<int64_t>(m / 4, 1) * k * kPanel, [&](int64_t panel) {
    const int64_t first = panel * kPanel, columns = std::min(kPanel, n - first);
    const float* b = packed + panel * k * kPanel;
    for (int64_t from = 0; from < k || from == 0; from += kPiece) {
      const int64_t count = std::min(kPiece, k - from);
      for (int64_t i = 0; i < blocks.count; ++i) {
        const int64_t r = blocks.first(i), height = blocks.first(i + 1) - r;
        kTiles[height - 1](count, a + r * k + from, k, b + from * kPanel, columns, add || from > 0,
                           c + r * n + first, n);
      }
    }
  });
}

}  // namespace carafe
