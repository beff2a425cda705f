// The matrix products of Winograd's algorithm, one per point, on operands as the transforms leave
// them: channels in blocks of 8 beside each other, blocks a stride apart. No packing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carafe::winograd {

constexpr int kVector = 8;            // channels of a block
constexpr int kOutChannels = 16;      // of one product with filters
constexpr int kWeightInChannels = 4;  // of one product over tiles
constexpr int kWeightOutBlocks = 3;   // blocks of 8 out channels of one product over tiles

// m[b][t][o] = sum over k of v[k / 8][t][k % 8] u[k][8 b + o], for b < out_blocks (1 or 2) and t =
// 0 .. tiles-1. Blocks of v and m are v_stride and m_stride floats apart; u is (channels, 16),
// aligned to 32 bytes.
void MultiplyFilters(int64_t tiles, int64_t channels, const float* v, size_t v_stride,
                     const float* u, int out_blocks, float* m, size_t m_stride);
// How many blocks of 8 of the 16 out channels from `first` on are there, with `last` channels in
// all.
constexpr int OutBlocks(int64_t first, int64_t last) { return last - first > kVector ? 2 : 1; }

// d[i][o] = sum over t of v[t][i] z[o / 8][t][o % 8], for i = 0 .. 3 and o = 0 .. 8 out_blocks - 1,
// out_blocks being 1, 2 or 3. Rows of v are 8 floats apart, blocks of z z_stride, rows of d
// d_stride. Sums of a few dozen tiles are made first and then added: one long sum would err more.
void MultiplyOverTiles(int64_t tiles, const float* v, const float* z, size_t z_stride,
                       int out_blocks, float* d, size_t d_stride);

}  // namespace carafe::winograd
