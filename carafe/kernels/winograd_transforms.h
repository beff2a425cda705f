// The four transforms of Winograd's algorithm on blocked images and plain filters, for each kind of
// tile. With p = m + r - 1 points per axis, the elements of a transformed tile or filter are p * p
// matrices a stride apart; element (i, j) is number i p + j.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carafe/kernels/winograd.h"
#include "carafe/kernels/winograd_tiles.h"

namespace carafe::winograd {

// One block of 8 channels of all images: (images, h, w, 8), images image_stride floats apart.
template <typename T>
struct Plane {
  T* data;
  int64_t h, w;
  size_t image_stride;
};

// Filters (out, in, r, r) of one group, seen as the matrix that the product over channels needs.
struct FilterMatrixView {
  const float* weights;
  int64_t in_channels, out_channels;  // of the group
  bool backward;                      // columns are in channels
  bool turned;                        // filters are turned by 180 degrees; only with `backward`
  int64_t rows() const { return backward ? out_channels : in_channels; }
  int64_t cols() const { return backward ? in_channels : out_channels; }
};

struct Transforms {
  int m, r;
  int points() const { return m + r - 1; }
  int elements() const { return points() * points(); }

  // v[element][t][8] = B^T d B for the tiles of the block; a tile's input starts (pad_h, pad_w)
  // before its output, and is 0 outside of the image.
  void (*input)(const TileBlock& block, Plane<const float> src, int64_t pad_h, int64_t pad_w,
                float* v, size_t v_stride);
  // d_src += B m B^T for the tiles of the block, m being m[element][t][8]; what lies outside of the
  // image is left out. The adjoint of `input`.
  void (*input_adjoint)(const TileBlock& block, const float* m, size_t m_stride, int64_t pad_h,
                        int64_t pad_w, Plane<float> d_src);
  // dst = max(lowest, A^T m A + bias[8]) for the tiles of the block, m being m[element][t][8].
  void (*output)(const TileBlock& block, const float* m, size_t m_stride, const float* bias,
                 float lowest, Plane<float> dst);
  // z[element][t][8] = A d_dst A^T.
  void (*output_adjoint)(const TileBlock& block, Plane<const float> d_dst, float* z,
                         size_t z_stride);
  // u[element][row][16] = G g G^T for all rows and 16 columns from first_col on; 0 past the last.
  void (*filters)(const FilterMatrixView& filters, int64_t first_col, float* u, size_t u_stride);
  // d_weights[out][in] += G^T d G for 8 out and `ins` in channels, d being d[element][in][8], its
  // rows d_row floats apart. d_weights points at the first of both; channels past the last are left
  // out.
  void (*filters_adjoint)(const float* d, size_t d_stride, size_t d_row, int64_t outs, int64_t ins,
                          int64_t in_channels, float* d_weights);
};

const Transforms& TransformsOf(WinogradTile tile);

}  // namespace carafe::winograd
