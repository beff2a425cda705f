// Multiplies vectors by constant matrices: x -> M x, and X -> M X N^T in two dimensions. The
// matrices are known to the compiler, so zeros cost nothing and rows or columns that differ only in
// signs (those of opposite points) share their sums.
#pragma once

#include <algorithm>

#include "carafe/base/float8.h"
#include "carafe/kernels/winograd_matrices.h"

namespace carafe::winograd {

// A constant matrix as a type: kMatrix, kRows, kCols.
template <int m, int r>
struct FilterMap {  // G
  static constexpr int kRows = m + r - 1, kCols = r;
  static constexpr auto kMatrix = FilterMatrix<m, r>();
};
template <int m, int r>
struct FilterAdjointMap {  // G^T
  static constexpr int kRows = r, kCols = m + r - 1;
  static constexpr auto kMatrix = Transposed(FilterMatrix<m, r>());
};

// The number of a small tile's point among the points of a full one: its last is infinity, too.
template <int m, int r>
constexpr int PointAt(int size, int i) {
  return i == size + r - 2 ? m + r - 2 : i;
}

// Those that exist for tiles of every size from 1 to m outputs along an axis. RowAt and ColAt: what
// a row or column stands for, the number of a pixel or of a full tile's point.
template <int m, int r>
struct InputMaps {  // B^T
  static constexpr int Rows(int size) { return size + r - 1; }
  static constexpr int Cols(int size) { return size + r - 1; }
  static constexpr int RowAt(int size, int i) { return PointAt<m, r>(size, i); }
  static constexpr int ColAt(int, int j) { return j; }
  template <int size>
  struct Map {
    static constexpr int kRows = Rows(size), kCols = Cols(size);
    static constexpr auto kMatrix = InputMatrix<m, r, size>();
  };
};
template <int m, int r>
struct InputAdjointMaps {  // B
  static constexpr int Rows(int size) { return size + r - 1; }
  static constexpr int Cols(int size) { return size + r - 1; }
  static constexpr int RowAt(int, int i) { return i; }
  static constexpr int ColAt(int size, int j) { return PointAt<m, r>(size, j); }
  template <int size>
  struct Map {
    static constexpr int kRows = Rows(size), kCols = Cols(size);
    static constexpr auto kMatrix = Transposed(InputMatrix<m, r, size>());
  };
};
template <int m, int r>
struct OutputMaps {  // A^T
  static constexpr int Rows(int size) { return size; }
  static constexpr int Cols(int size) { return size + r - 1; }
  static constexpr int RowAt(int, int i) { return i; }
  static constexpr int ColAt(int size, int j) { return PointAt<m, r>(size, j); }
  template <int size>
  struct Map {
    static constexpr int kRows = Rows(size), kCols = Cols(size);
    static constexpr auto kMatrix = OutputMatrix<m, r, size>();
  };
};
template <int m, int r>
struct OutputAdjointMaps {  // A
  static constexpr int Rows(int size) { return size + r - 1; }
  static constexpr int Cols(int size) { return size; }
  static constexpr int RowAt(int size, int i) { return PointAt<m, r>(size, i); }
  static constexpr int ColAt(int, int j) { return j; }
  template <int size>
  struct Map {
    static constexpr int kRows = Rows(size), kCols = Cols(size);
    static constexpr auto kMatrix = Transposed(OutputMatrix<m, r, size>());
  };
};

constexpr double Magnitude(double x) { return x < 0 ? -x : x; }

// Whether rows i and i+1 are (s + d) and (s - d), neither being 0.
template <typename Map>
constexpr bool PairsRows(int i) {
  if (i < 0 || i + 1 >= Map::kRows) return false;
  bool same = false, opposite = false;
  for (int j = 0; j < Map::kCols; ++j) {
    const double a = Map::kMatrix.at[i][j], b = Map::kMatrix.at[i + 1][j];
    if (Magnitude(a) != Magnitude(b)) return false;
    if (a != 0) (a == b ? same : opposite) = true;
  }
  return same && opposite;
}
// Whether columns j and j+1 are equal or opposite in every row, and both kinds occur.
template <typename Map>
constexpr bool PairsCols(int j) {
  if (j < 0 || j + 1 >= Map::kCols) return false;
  bool same = false, opposite = false;
  for (int i = 0; i < Map::kRows; ++i) {
    const double a = Map::kMatrix.at[i][j], b = Map::kMatrix.at[i][j + 1];
    if (Magnitude(a) != Magnitude(b)) return false;
    if (a != 0) (a == b ? same : opposite) = true;
  }
  return same && opposite;
}

enum class Part { kAll, kSameInNextRow, kOppositeInNextRow };

// What x_j is multiplied by in the given part of row i. A pair of columns counts as its first
// column.
template <typename Map, int i, Part part>
constexpr double Coefficient(int j) {
  const double a = Map::kMatrix.at[i][j];
  if (PairsCols<Map>(j - 1)) return 0;
  if (part == Part::kAll) return a;
  return (a == Map::kMatrix.at[i + 1][j]) == (part == Part::kSameInNextRow) ? a : 0;
}

// The term to start a sum with: one that needs no multiplication, if there is any.
template <typename Map, int i, Part part>
constexpr int FirstTerm() {
  int first = -1;
  for (int j = Map::kCols - 1; j >= 0; --j) {
    const double c = Coefficient<Map, i, part>(j);
    if (c == 1) return j;
    if (c != 0) first = j;
  }
  return first;
}

// sums[j] and differences[j]: x_j, or x_j + x_j+1 and x_j - x_j+1 where the columns are a pair.
template <typename Map, int i, Part part>
CARAFE_INLINE Float8 RowOf(const Float8* sums, const Float8* differences) {
  constexpr int first = FirstTerm<Map, i, part>();
  const auto term = [&]<int j>(std::integral_constant<int, j>) CARAFE_INLINE_LAMBDA {
    if constexpr (PairsCols<Map>(j)) {
      return Map::kMatrix.at[i][j] == Map::kMatrix.at[i][j + 1] ? sums[j] : differences[j];
    } else {
      return sums[j];
    }
  };
  constexpr float scale = static_cast<float>(Coefficient<Map, i, part>(first));
  Float8 sum = term(std::integral_constant<int, first>());
  if constexpr (scale != 1) sum = sum * All8(scale);
  Unroll<Map::kCols>([&]<int j>(std::integral_constant<int, j> index) CARAFE_INLINE_LAMBDA {
    constexpr float c = static_cast<float>(Coefficient<Map, i, part>(j));
    if constexpr (j == first || c == 0) {
      return;
    } else if constexpr (c == 1) {
      sum = sum + term(index);
    } else if constexpr (c == -1) {
      sum = sum - term(index);
    } else {
      sum = MulAdd8(All8(c), term(index), sum);
    }
  });
  return sum;
}

// y = M x
template <typename Map>
CARAFE_INLINE void Apply(const Float8 (&x)[Map::kCols], Float8 (&y)[Map::kRows]) {
  Float8 sums[Map::kCols], differences[Map::kCols];
  Unroll<Map::kCols>([&]<int j>(std::integral_constant<int, j>) CARAFE_INLINE_LAMBDA {
    sums[j] = x[j];
    if constexpr (PairsCols<Map>(j)) {
      sums[j] = x[j] + x[j + 1];
      differences[j] = x[j] - x[j + 1];
    }
  });
  Unroll<Map::kRows>([&]<int i>(std::integral_constant<int, i>) CARAFE_INLINE_LAMBDA {
    if constexpr (PairsRows<Map>(i)) {
      const Float8 s = RowOf<Map, i, Part::kSameInNextRow>(sums, differences);
      const Float8 d = RowOf<Map, i, Part::kOppositeInNextRow>(sums, differences);
      y[i] = s + d;
      y[i + 1] = s - d;
    } else if constexpr (!PairsRows<Map>(i - 1)) {
      y[i] = RowOf<Map, i, Part::kAll>(sums, differences);
    }
  });
}

// store(i, j, element of Rows X Cols^T), X being load(row, column).
template <typename Rows, typename Cols, typename Load, typename Store>
CARAFE_INLINE void Transform2d(const Load& load, const Store& store) {
  Float8 half[Rows::kRows][Cols::kCols];
  Unroll<Cols::kCols>([&](auto c) CARAFE_INLINE_LAMBDA {
    Float8 x[Rows::kCols], y[Rows::kRows];
    Unroll<Rows::kCols>([&](auto k) CARAFE_INLINE_LAMBDA { x[k] = load(k, c); });
    Apply<Rows>(x, y);
    Unroll<Rows::kRows>([&](auto k) CARAFE_INLINE_LAMBDA { half[k][c] = y[k]; });
  });
  Unroll<Rows::kRows>([&](auto k) CARAFE_INLINE_LAMBDA {
    Float8 y[Cols::kRows];
    Apply<Cols>(half[k], y);
    Unroll<Cols::kRows>([&](auto j) CARAFE_INLINE_LAMBDA { store(k, j, y[j]); });
  });
}

// f(integral_constant<int, size>), 1 <= size <= m
template <int m, typename F>
void WithSize(int size, const F& f) {
  Unroll<m>([&](auto i) {
    if (size == i + 1) f(std::integral_constant<int, i + 1>());
  });
}

// The same for a tile of rows x cols outputs, of any sizes up to m: less code, and less speed, than
// one Transform2d for each pair of sizes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// g++ 12 does not see that the rows and columns read below are those written above.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
template <typename Maps, int m, typename Load, typename Store>
void TransformAnySize(int rows, int cols, const Load& load, const Store& store) {
  constexpr int kMost = std::max(Maps::Cols(m), Maps::Rows(m));
  Float8 half[kMost][kMost];
  WithSize<m>(rows, [&](auto size) {
    using Map = typename Maps::template Map<size>;
    for (int c = 0; c < Maps::Cols(cols); ++c) {
      const int col = Maps::ColAt(cols, c);
      Float8 x[Map::kCols], y[Map::kRows];
      Unroll<Map::kCols>([&](auto k)
                             CARAFE_INLINE_LAMBDA { x[k] = load(Maps::ColAt(size, k), col); });
      Apply<Map>(x, y);
      Unroll<Map::kRows>([&](auto k) CARAFE_INLINE_LAMBDA { half[k][c] = y[k]; });
    }
  });
  WithSize<m>(cols, [&](auto size) {
    using Map = typename Maps::template Map<size>;
    for (int k = 0; k < Maps::Rows(rows); ++k) {
      const int row = Maps::RowAt(rows, k);
      Float8 x[Map::kCols], y[Map::kRows];
      Unroll<Map::kCols>([&](auto j) CARAFE_INLINE_LAMBDA { x[j] = half[k][j]; });
      Apply<Map>(x, y);
      Unroll<Map::kRows>([&](auto j)
                             CARAFE_INLINE_LAMBDA { store(row, Maps::RowAt(size, j), y[j]); });
    }
  });
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// The first for sizes known to the compiler (integral_constants), the second for others.
template <typename Maps, int m, typename Size, typename Load, typename Store>
CARAFE_INLINE void TransformTile(Size rows, Size cols, const Load& load, const Store& store) {
  if constexpr (std::is_same_v<Size, int>) {
    TransformAnySize<Maps, m>(rows, cols, load, store);
  } else {
    using Map = typename Maps::template Map<Size::value>;
    Transform2d<Map, Map>(load, store);
  }
}

}  // namespace carafe::winograd
