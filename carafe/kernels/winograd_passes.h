// The passes of a Winograd convolution: blocks of tiles that stay in the cache go through a
// transform, one matrix product per point, and the transform back. Immutable; Run uses up to
// `threads` threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "carafe/kernels/winograd_tiles.h"
#include "carafe/kernels/winograd_transforms.h"

namespace carafe::winograd {

// Images (images, blocks(), h, w, 8): nChw8c.
struct ImageShape {
  int64_t images, channels, h, w;
  int64_t blocks() const { return (channels + 7) / 8; }
  size_t plane_floats() const { return static_cast<size_t>(h * w * 8); }
  template <typename T>
  Plane<T> Block(T* data, int64_t block) const {
    return {data + static_cast<size_t>(block) * plane_floats(), h, w,
            static_cast<size_t>(blocks()) * plane_floats()};
  }
};

// The sizes that the passes share: groups of channels, and the tiles of the output.
class Pass {
 protected:
  Pass(const Transforms& transforms, ImageShape src, ImageShape dst, int64_t groups, int64_t pad_h,
       int64_t pad_w)
      : transforms_(transforms),
        src_(src),
        dst_(dst),
        groups_(groups),
        group_in_(src.channels / groups),
        group_out_(dst.channels / groups),
        pad_h_(pad_h),
        pad_w_(pad_w),
        tiling_(dst.images, dst.h, dst.w, transforms.m, transforms.r) {}

  const Transforms& transforms_;
  const ImageShape src_, dst_;
  const int64_t groups_, group_in_, group_out_, pad_h_, pad_w_;
  const Tiling tiling_;
};

// dst = src * filters: the forward direction; and backward to the data, with the filters turned by
// 180 degrees, in and out channels swapped, and pad' = r - 1 - pad.
class ImagePass : private Pass {
 public:
  ImagePass(const Transforms& transforms, ImageShape src, ImageShape dst, int64_t groups,
            int64_t pad_h, int64_t pad_w, bool backward)
      : Pass(transforms, src, dst, groups, pad_h, pad_w), backward_(backward) {}
  size_t ScratchFloats(int threads) const { return PlanFor(threads).total; }
  // dst = max(lowest, src * weights + bias); bias may be null.
  void Run(int threads, const float* src, const float* weights, const float* bias, float lowest,
           float* dst, float* scratch) const;

 private:
  // Sizes and places in the scratch. The filters are transformed once for all blocks of tiles; or,
  // if one block holds all tiles, chunk by chunk right before their use, so that they stay in the
  // cache.
  struct Plan {
    bool one_block;
    int64_t block_tiles, blocks;                            // blocks of tiles
    int64_t chunk, group_chunks;                            // out channels of a chunk; its number
    size_t v_block, v_stride, m_block, m_stride, u_stride;  // floats
    size_t bias, tiles, u, v, m;                            // offsets; u, v, m of thread 0
    size_t thread_floats;  // from a thread's part to the next one's
    size_t total;
  };
  Plan PlanFor(int threads) const;
  void RunBlocks(const Plan& plan, const float* src, const float* weights, float lowest, float* dst,
                 float* scratch, int threads) const;
  void RunOneBlock(const Plan& plan, const float* src, const float* weights, float lowest,
                   float* dst, float* scratch, int threads) const;
  // out channels first .. first + plan.chunk - 1 of a group for the tiles of a block.
  void MultiplyChunk(const Plan& plan, const TileBlock& block, int64_t group, int64_t first,
                     const float* v, const float* u, const float* bias, float lowest, float* m,
                     float* dst) const;
  FilterMatrixView GroupFilters(const float* weights, int64_t group) const;

  const bool backward_;
};

// d_src = the adjoint of the forward direction: d_src += B [sum over out channels of (G g G^T) * (A
// d_dst A^T)] B^T for the tiles of the forward direction, whose inputs overlap. Has fewer tiles
// than ImagePass where dst is smaller than src, for it has no border of zeros to go through.
class AdjointPass : private Pass {
 public:
  AdjointPass(const Transforms& transforms, ImageShape src, ImageShape dst, int64_t groups,
              int64_t pad_h, int64_t pad_w)
      : Pass(transforms, src, dst, groups, pad_h, pad_w) {}
  size_t ScratchFloats(int threads) const { return PlanFor(threads).total; }
  // Whether it has so many fewer tiles that it is faster. Does not depend on the number of images.
  bool Pays() const;
  void Run(int threads, const float* d_dst, const float* weights, float* d_src,
           float* scratch) const;

 private:
  // A block is some whole images: what one thread does at a time, so that the tiles of an image are
  // added one after the other.
  struct Plan {
    int64_t block_images;
    int64_t parts;                                         // of 16 in channels of a group
    size_t z_block, z_stride, m_stride, u_part, u_stride;  // floats
    size_t u, tiles, z, m;                                 // offsets; all but u of thread 0
    size_t thread_floats;
    size_t total;
  };
  Plan PlanFor(int threads) const;
  void RunGroup(const Plan& plan, const TileBlock& block, int64_t group, const float* d_dst,
                const float* u, float* z, float* m, float* d_src) const;
};

// d_weights += gradient: dU = sum over tiles of (B^T d B) (A d_dst A^T), d_weights += G^T dU G. The
// sums run over the tiles in one order for any number of threads, which share out channels; they
// are made of short sums, because G^T dU G magnifies their errors, in which P workers differ from
// one.
class WeightPass : private Pass {
 public:
  WeightPass(const Transforms& transforms, ImageShape src, ImageShape dst, int64_t groups,
             int64_t pad_h, int64_t pad_w);
  size_t ScratchFloats(int threads) const { return PlanFor(threads).total; }
  void Run(int threads, const float* src, const float* d_dst, float* d_weights,
           float* scratch) const;

 private:
  struct Plan {
    int64_t block_tiles;
    size_t plane, v_stride, z_stride, d_stride;  // floats
    size_t v, z, own;                            // offsets; the part of thread 0
    size_t tiles, thread_floats;                 // in a thread's part: d, then its tiles
    size_t total;
  };
  Plan PlanFor(int threads) const;
  // Some in and out channels of one group: what one thread does at a time.
  struct Unit {
    int64_t group, in, ins;         // in channels of the group
    int64_t out_block, out_blocks;  // blocks of out channels of the group
  };
  int64_t units() const { return groups_ * in_parts_ * out_parts_; }
  Unit UnitAt(int64_t index) const;
  void Accumulate(const Plan& plan, const TileBlock& block, const Unit& unit, const float* v,
                  const float* z, float* d, float* d_weights) const;

  const int64_t in_parts_, out_parts_;  // of the channels of a group
};

}  // namespace carafe::winograd
