// B lies in panels of 16 columns, (n / 16, k, 16) with zeros beyond n. A panel is multiplied by six
// rows of A at a time: twelve sums in registers. Few rows of A are read where they lie; many, or
// columns, are packed block by block as (rows / 6, k, 6), so that a block stays in the second-level
// cache while all panels pass.
#include "carafe/kernels/packed_gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "carafe/base/float8.h"
#include "carafe/kernels/cpu_for.h"

namespace carafe {
namespace {

constexpr int64_t kPanel = 16, kRows = 6;
constexpr int64_t kFewRows = 64;     // that many rows lie in the second-level cache as they are
constexpr int64_t kBlockTiles = 16;  // of six rows each
// Elements of k that are added up in registers (measured). PackedGemm has one size for any number
// of rows, because it decides the order of the sums, and so the last digits of a row.
constexpr int64_t kPanelGemmPiece = 1024, kPackedGemmPiece = 512;
constexpr int64_t kAhead = 8;  // rows: columns lie far apart, where no prefetcher of the CPU looks

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t Panels(int64_t n) { return DivideUp(n, kPanel); }

// k in pieces of equal size but for the last.
struct Pieces {
  int64_t k, size;
  Pieces(int64_t inner, int64_t most)
      : k(inner), size(k == 0 ? 1 : DivideUp(inner, DivideUp(inner, most))) {}
  int64_t count(int64_t from) const { return std::min(size, k - from); }
};

// c (R, 16) = start + a (R, k) b (k, 16), the first `columns` of it. a(r, i) is at r * a_row + i,
// or if it is packed at r + i * 6.
template <int R, bool kPacked>
inline void Tile(int64_t k, const float* a, int64_t a_row, const float* b, int64_t columns,
                 Start start, float* c, int64_t c_step) {
  Float8 sums[R][2];
  const float* row[R];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    sums[r][0] = sums[r][1] = All8(0.0f);
    row[r] = kPacked ? a + r : a + r * a_row;
    __builtin_prefetch(c + r * c_step);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < k; ++i) {
    Float8 first = Load8(b), second = Load8(b + 8);
    Hold8(first);
    Hold8(second);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Float8 factor = All8(kPacked ? a[r] : row[r][i]);
      sums[r][0] = MulAdd8(factor, first, sums[r][0]);
      sums[r][1] = MulAdd8(factor, second, sums[r][1]);
    }
    b += kPanel;
    if (kPacked) a += kRows;
  }
  if (columns == kPanel) {
    if (start.rows != nullptr) {
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        sums[r][0] += Load8(start.rows + r * start.step);
        sums[r][1] += Load8(start.rows + r * start.step + 8);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      Store8(c + r * c_step, sums[r][0]);
      Store8(c + r * c_step + 8, sums[r][1]);
    }
    return;
  }
  float whole[R][kPanel];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    Store8(whole[r], sums[r][0]);
    Store8(whole[r] + 8, sums[r][1]);
  }
  for (int r = 0; r < R; ++r) {
    for (int64_t i = 0; i < columns; ++i) {
      const float from = start.rows != nullptr ? start.rows[r * start.step + i] : 0.0f;
      c[r * c_step + i] = from + whole[r][i];
    }
  }
}

using TileFunction = decltype(&Tile<1, false>);
template <bool kPacked>
constexpr TileFunction kTiles[kRows] = {Tile<1, kPacked>, Tile<2, kPacked>, Tile<3, kPacked>,
                                        Tile<4, kPacked>, Tile<5, kPacked>, Tile<6, kPacked>};

typedef float Float4 __attribute__((vector_size(16)));

// to (4, 6) from six rows of four.
inline void TransposeSixByFour(const float* rows, int64_t step, float* to) {
  Float4 row[kRows];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) std::memcpy(&row[r], rows + r * step, sizeof(Float4));
  Float4 pairs[3][2];  // of rows 2 r and 2 r + 1: columns 0 and 1, then 2 and 3
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    pairs[r][0] = __builtin_shufflevector(row[2 * r], row[2 * r + 1], 0, 4, 1, 5);
    pairs[r][1] = __builtin_shufflevector(row[2 * r], row[2 * r + 1], 2, 6, 3, 7);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const Float4 first = pairs[0][half], second = pairs[1][half], third = pairs[2][half];
    const Float4 columns[3] = {__builtin_shufflevector(first, second, 0, 1, 4, 5),
                               __builtin_shufflevector(third, first, 0, 1, 6, 7),
                               __builtin_shufflevector(second, third, 2, 3, 6, 7)};
    std::memcpy(to + half * 2 * kRows, columns, sizeof columns);
  }
}

// to(c, r) = from(r, c): eight rows of eight, `step` apart, become rows that lie kPanel apart.
inline void TransposeEightByEight(const float* from, int64_t step, float* to) {
  Float8 rows[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) rows[r] = Load8(from + r * step);
  Transpose8(rows);
#pragma GCC unroll 8
  for (int c = 0; c < 8; ++c) Store8(to + c * kPanel, rows[c]);
}

// A matrix (k, n) that is stored like that, or as (n, k) with kTrans.
struct Matrix {
  Op op;
  int64_t k, n;
  const float* values;
};

// Elements `from` .. `from` + count of k of one panel: (count, 16).
void PackPanel(const Matrix& b, int64_t panel, int64_t from, int64_t count, float* to) {
  const int64_t first = panel * kPanel, columns = std::min(kPanel, b.n - first);
  const bool whole = columns == kPanel;
  if (!whole) std::fill(to, to + count * kPanel, 0.0f);
  int64_t i = 0;
  if (b.op == Op::kTrans) {
    const float* rows = b.values + first * b.k + from;
    for (; whole && i + 8 <= count; i += 8) {
      TransposeEightByEight(rows + i, b.k, to + i * kPanel);
      TransposeEightByEight(rows + 8 * b.k + i, b.k, to + i * kPanel + 8);
    }
    for (; i < count; ++i) {
      for (int64_t c = 0; c < columns; ++c) to[i * kPanel + c] = rows[c * b.k + i];
    }
    return;
  }
  const float* row = b.values + from * b.n + first;
  for (; whole && i < count; ++i, row += b.n) {
    Store8(to + i * kPanel, Load8(row));
    Store8(to + i * kPanel + 8, Load8(row + 8));
  }
  for (; i < count; ++i, row += b.n) std::copy_n(row, columns, to + i * kPanel);
}

// Part i of n things in `count` parts: as equal as can be.
struct Parts {
  int64_t n, count;
  int64_t first(int64_t i) const { return n * i / count; }
};

// One product: what its parts need to know.
struct Product {
  Op op;
  int64_t m, n, k;
  const float *a, *packed;
  Start start;
  float* c;
  Pieces pieces;

  const float* panel(int64_t p, int64_t from) const { return packed + (p * k + from) * kPanel; }
  int64_t columns(int64_t p) const { return std::min(kPanel, n - p * kPanel); }
  // Rows and columns from (r, p * kPanel) on; later pieces of k are added to what is there.
  Start StartAt(int64_t from, int64_t r, int64_t p) const {
    if (from > 0) return {c + r * n + p * kPanel, n};
    if (start.rows == nullptr) return {};
    return {start.rows + r * start.step + p * kPanel, start.step};
  }

  // All few rows times a piece of one panel, from `from` on.
  void RowsTimesPiece(int64_t p, int64_t from, const float* piece) const {
    const Parts tiles{m, DivideUp(m, kRows)};  // so that none has one row alone
    for (int64_t i = 0; i < tiles.count; ++i) {
      const int64_t r = tiles.first(i), height = tiles.first(i + 1) - r;
      kTiles<false>[height - 1](pieces.count(from), a + r * k + from, k, piece, columns(p),
                                StartAt(from, r, p), c + r * n + p * kPanel, n);
    }
  }
  void RowsTimesPanel(int64_t p) const {
    for (int64_t from = 0; from < k || from == 0; from += pieces.size) {
      RowsTimesPiece(p, from, panel(p, from));
    }
  }
  void RowsTimesPanel(const Matrix& b, int64_t p) const {
    thread_local std::vector<float> memory;
    memory.resize(static_cast<size_t>(pieces.size * kPanel));
    for (int64_t from = 0; from < k || from == 0; from += pieces.size) {
      PackPanel(b, p, from, pieces.count(from), memory.data());
      RowsTimesPiece(p, from, memory.data());
    }
  }

  // Tiles `first` .. `end`, elements `from` .. `from` + count of each row: (tiles, count, 6).
  void PackRows(int64_t first, int64_t end, int64_t from, int64_t count, float* to) const {
    for (int64_t t = first; t < end; ++t, to += count * kRows) {
      const int64_t r = t * kRows, height = std::min(kRows, m - r);
      const float* rows = a + r * k + from;
      int64_t i = 0;
      if (height == kRows) {
        for (; i + 4 <= count; i += 4) TransposeSixByFour(rows + i, k, to + i * kRows);
      }
      for (; i < count; ++i) {
        for (int64_t y = 0; y < height; ++y) to[i * kRows + y] = rows[y * k + i];
      }
    }
  }
  // The same of columns, along the rows that they cross.
  void PackColumns(int64_t first, int64_t end, int64_t from, int64_t count, float* to) const {
    const int64_t whole = std::min(end, m / kRows), rest = m - whole * kRows;
    for (int64_t i = 0; i < count; ++i, to += kRows) {
      const float* row = a + (from + i) * m;
      const float* later = a + std::min(from + i + kAhead, k - 1) * m;
      for (int64_t j = first * kRows; j < end * kRows; j += 16) __builtin_prefetch(later + j);
      for (int64_t t = first; t < whole; ++t) {
        std::memcpy(to + (t - first) * count * kRows, row + t * kRows, kRows * sizeof(float));
      }
      for (int64_t y = 0; whole < end && y < rest; ++y) {
        to[(whole - first) * count * kRows + y] = row[whole * kRows + y];
      }
    }
  }

  // Tiles `first` .. `end` of six rows each times all panels.
  void BlockTimesPanels(int64_t first, int64_t end) const {
    thread_local std::vector<float> memory;
    memory.resize(static_cast<size_t>((end - first) * kRows * pieces.size));
    for (int64_t from = 0; from < k || from == 0; from += pieces.size) {
      const int64_t count = pieces.count(from);
      if (op == Op::kNone) {
        PackRows(first, end, from, count, memory.data());
      } else {
        PackColumns(first, end, from, count, memory.data());
      }
      for (int64_t p = 0; p < Panels(n); ++p) {
        for (int64_t t = first; t < end; ++t) {
          const int64_t r = t * kRows, height = std::min(kRows, m - r);
          kTiles<true>[height - 1](count, memory.data() + (t - first) * kRows * count, 0,
                                   panel(p, from), columns(p), StartAt(from, r, p),
                                   c + r * n + p * kPanel, n);
        }
      }
    }
  }
};

}  // namespace

int64_t PackedCount(int64_t k, int64_t n) { return Panels(n) * kPanel * k; }

void PackMatrix(Stream& stream, Op op, int64_t k, int64_t n, const float* b, float* packed) {
  CpuFor(stream, Panels(n), k * kPanel, [&](int64_t panel) {
    PackPanel({op, k, n, b}, panel, 0, k, packed + panel * k * kPanel);
  });
}

void PackedGemm(Stream& stream, Op op, int64_t m, int64_t n, int64_t k, const float* a,
                const float* packed, Start start, float* c) {
  if (m == 0 || n == 0) return;
  const bool few = op == Op::kNone && m <= kFewRows;
  const Product product{op, m, n, k, a, packed, start, c, Pieces(k, kPackedGemmPiece)};
  if (few) {
    return CpuFor(stream, Panels(n), std::max<int64_t>(m / 4, 1) * k * kPanel,
                  [&](int64_t panel) { product.RowsTimesPanel(panel); });
  }
  const int64_t tiles = DivideUp(m, kRows), threads = stream.threads();
  const Parts blocks{tiles,
                     std::min(tiles, DivideUp(DivideUp(tiles, kBlockTiles), threads) * threads)};
  CpuFor(stream, blocks.count, kBlockTiles * k * n,
         [&](int64_t i) { product.BlockTimesPanels(blocks.first(i), blocks.first(i + 1)); });
}

void PanelGemm(Stream& stream, Op op, int64_t m, int64_t n, int64_t k, const float* a,
               const float* b, Start start, float* c) {
  if (m == 0 || n == 0) return;
  const Product product{Op::kNone, m, n, k, a, nullptr, start, c, Pieces(k, kPanelGemmPiece)};
  CpuFor(stream, Panels(n), std::max<int64_t>(m / 4, 1) * k * kPanel, [&](int64_t panel) {
    product.RowsTimesPanel({op, k, n, b}, panel);
  });
}

}  // namespace carafe
