#include "carafe/kernels/winograd_tiles.h"

namespace carafe::winograd {

TileBlock Tiling::Block(int64_t first, int64_t last, Tile* storage) const {
  const int64_t per_image = rows_.count * cols_.count;
  const auto visit = [&](const auto& f) {  // f(run, tile)
    int64_t image = first / per_image, row = first % per_image / cols_.count;
    int64_t col = first % cols_.count;
    for (int64_t t = first; t < last; ++t) {
      const bool rest_row = row == rows_.full, rest_col = col == cols_.full;
      f(rest_row ? 2 + rest_col : 1 - rest_col,
        Tile{static_cast<int32_t>(image), static_cast<int32_t>(row * m_),
             static_cast<int32_t>(col * m_)});
      if (++col < cols_.count) continue;
      col = 0;
      if (++row < rows_.count) continue;
      row = 0;
      ++image;
    }
  };
  TileBlock block;
  block.tiles = storage;
  block.count = last - first;
  for (int i = 0; i < 4; ++i) {
    block.runs[i].rows = i < 2 ? m_ : rows_.rest;
    block.runs[i].cols = i == 1 || i == 2 ? m_ : cols_.rest;
  }
  visit([&](int run, const Tile&) { ++block.runs[run].count; });
  int64_t next[4] = {};
  for (int i = 1; i < 4; ++i) {
    block.runs[i].first = next[i] = block.runs[i - 1].first + block.runs[i - 1].count;
  }
  visit([&](int run, const Tile& tile) { storage[next[run]++] = tile; });
  return block;
}

std::pair<int64_t, int64_t> Tiling::WithPoint(const TileBlock& block, int row, int col) const {
  const bool rest_rows = RestHas(rows_, row), rest_cols = RestHas(cols_, col);
  const TileRun& first = block.runs[rest_cols ? 0 : 1];
  const TileRun& last = block.runs[!rest_rows ? 1 : rest_cols ? 3 : 2];
  return {first.first, last.first + last.count};
}

}  // namespace carafe::winograd
