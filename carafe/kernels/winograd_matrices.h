// The matrices of Winograd's algorithm, computed at compile time from its interpolation points.
//
// n = m + r - 1 points give m outputs of a filter with r taps: dst = A^T [(G g) * (B^T d)]. With
// N_p = product of (a_p - a_q) over the other finite points q:
//   G    (n x r)  row p: a_p^j / N_p;                  last row (infinity): 1 in column r-1
//   B^T  (n x n)  row p: coefficients of the product of (x - a_q), q != p; last row: of all (x -
//   a_q) A^T  (m x n)  column p: a_p^i;                     last column: 1 in row m-1
//
// Where m does not divide the output, its last tile has m' < m outputs and n' = m' + r - 1 points:
// the first n' - 1 finite ones, and infinity. It works with the same filters G g: the ratio of its
// N_p to those of the full tile goes into its B^T. So a smaller tile leaves points out and needs
// nothing else.
#pragma once

namespace carafe::winograd {

template <int kRows, int kCols>
struct Matrix {
  double at[kRows][kCols] = {};
};

template <int kRows, int kCols>
constexpr Matrix<kCols, kRows> Transposed(const Matrix<kRows, kCols>& a) {
  Matrix<kCols, kRows> t;
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) t.at[j][i] = a.at[i][j];
  }
  return t;
}

// Finite point p of an algorithm with n points in all: opposite pairs, which share most of their
// sums, and multiples of 1/8, so that A and B^T are exact in float. Among such, 5/8 and 3/2 give
// F(4x4,3x3) and F(2x2,5x5) the least error: 3.6e-7 and 4.1e-7 of the output's root mean square for
// one channel of normal numbers, where 1 and 2 give 6.6e-7 and 7.5e-7. F(4x4,5x5) errs by 1.3e-6
// with 1/2, 1 and 2; no other triple up to 5/2 is better.
constexpr double FinitePoint(int p, int n) {
  constexpr double kOfFour[] = {0, 1, -1}, kOfSix[] = {0, 0.625, -0.625, 1.5, -1.5};
  constexpr double kOfEight[] = {0, 0.5, -0.5, 1, -1, 2, -2};
  return n == 4 ? kOfFour[p] : n == 6 ? kOfSix[p] : kOfEight[p];
}

constexpr double Power(double x, int exponent) {
  double power = 1;
  for (int i = 0; i < exponent; ++i) power *= x;
  return power;
}

// N_p among the first `finite` of the points.
constexpr double Normaliser(int p, int finite, int n) {
  double product = 1;
  for (int q = 0; q < finite; ++q) {
    if (q != p) product *= FinitePoint(p, n) - FinitePoint(q, n);
  }
  return product;
}

// G of F(m, r).
template <int m, int r>
constexpr Matrix<m + r - 1, r> FilterMatrix() {
  constexpr int n = m + r - 1;
  Matrix<n, r> g;
  for (int p = 0; p < n - 1; ++p) {
    for (int j = 0; j < r; ++j) g.at[p][j] = Power(FinitePoint(p, n), j) / Normaliser(p, n - 1, n);
  }
  g.at[n - 1][r - 1] = 1;
  return g;
}

// B^T of a tile with m_small outputs that uses the filters of F(m, r).
template <int m, int r, int m_small>
constexpr Matrix<m_small + r - 1, m_small + r - 1> InputMatrix() {
  constexpr int n = m + r - 1, small = m_small + r - 1;
  Matrix<small, small> b;
  for (int p = 0; p < small; ++p) {
    const bool infinite = p == small - 1;
    double coefficients[small] = {1};
    for (int q = 0; q < small - 1; ++q) {
      if (q == p) continue;
      for (int j = small - 1; j >= 0; --j) {  // times (x - a_q)
        coefficients[j] = (j > 0 ? coefficients[j - 1] : 0) - FinitePoint(q, n) * coefficients[j];
      }
    }
    const double scale = infinite ? 1 : Normaliser(p, n - 1, n) / Normaliser(p, small - 1, n);
    for (int j = 0; j < small; ++j) b.at[p][j] = scale * coefficients[j];
  }
  return b;
}

// A^T of such a tile.
template <int m, int r, int m_small>
constexpr Matrix<m_small, m_small + r - 1> OutputMatrix() {
  constexpr int n = m + r - 1, small = m_small + r - 1;
  Matrix<m_small, small> a;
  for (int i = 0; i < m_small; ++i) {
    for (int p = 0; p < small - 1; ++p) a.at[i][p] = Power(FinitePoint(p, n), i);
  }
  a.at[m_small - 1][small - 1] = 1;
  return a;
}

}  // namespace carafe::winograd
