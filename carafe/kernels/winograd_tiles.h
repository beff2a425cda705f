// How an output is cut into tiles. Along an axis all tiles have m outputs but for the last, which
// has the rest: so no output is computed twice or thrown away. A tile with fewer outputs has fewer
// points.
#pragma once

#include <cstdint>
#include <utility>

namespace carafe::winograd {

// Sizes of the tiles along one axis of `size` outputs.
struct AxisTiling {
  AxisTiling(int64_t size, int m)
      : full(size / m), rest(static_cast<int>(size % m)), count(full + (rest > 0)) {}
  int64_t full;   // tiles with m outputs
  int rest;       // outputs of the tile after those, 0 if there is none
  int64_t count;  // of both
};

struct Tile {
  int32_t image, y, x;  // its first output
};

// A run of tiles of one size.
struct TileRun {
  int rows = 0, cols = 0;  // outputs of a tile
  int64_t first = 0, count = 0;
};

// Some tiles, in runs of equal size: (m, rest), (m, m), (rest, m), (rest, rest). In that order
// those that have a given pair of points are neighbours, too.
struct TileBlock {
  const Tile* tiles = nullptr;
  TileRun runs[4];
  int64_t count = 0;
};

// The tiles of all images: all those of image 0 row by row, then image 1, ..
class Tiling {
 public:
  // m x m outputs per full tile, `points` = m + r - 1 for a filter with r x r taps.
  Tiling(int64_t images, int64_t h, int64_t w, int m, int r)
      : rows_(h, m), cols_(w, m), m_(m), r_(r), count_(images * rows_.count * cols_.count) {}

  int64_t count() const { return count_; }
  int64_t per_image() const { return rows_.count * cols_.count; }
  // Tiles first .. last-1, sorted into `storage`, which has room for them and outlives the block.
  TileBlock Block(int64_t first, int64_t last, Tile* storage) const;
  // The tiles of the block that have the point (row, col), 0 <= row, col < m + r - 1: [first,
  // last).
  std::pair<int64_t, int64_t> WithPoint(const TileBlock& block, int row, int col) const;

 private:
  // Whether the last, smaller tile of the axis has the point as well.
  bool RestHas(const AxisTiling& axis, int point) const {
    return point < axis.rest + r_ - 2 || point == m_ + r_ - 2;
  }
  AxisTiling rows_, cols_;
  int m_, r_;
  int64_t count_;
};

}  // namespace carafe::winograd
