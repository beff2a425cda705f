#include <algorithm>

#include <omp.h>

#include "carafe/kernels/winograd_gemm.h"
#include "carafe/kernels/winograd_passes.h"
#include "carafe/kernels/winograd_scratch.h"

namespace carafe::winograd {
namespace {

constexpr int64_t kBlockTiles = 196;
// Channels of a unit: both operands of a product stay in the L2 cache (measured: 32 x 24 to 128 x
// 96 differ by less than the noise).
constexpr int64_t kUnitIn = 64, kUnitOutBlocks = 6;
constexpr size_t kUnitRow = kUnitOutBlocks * kVector;

// Whole images as far as they fit: then the sum over the tiles of an image does not depend on its
// neighbours, which are others with another number of workers.
int64_t BlockTiles(int64_t images, int64_t per_image) {
  if (per_image > kBlockTiles) return DivideUp(per_image, DivideUp(per_image, kBlockTiles));
  const int64_t blocks = DivideUp(images, kBlockTiles / per_image);
  return DivideUp(images, blocks) * per_image;
}

}  // namespace

WeightPass::WeightPass(const Transforms& transforms, ImageShape src, ImageShape dst, int64_t groups,
                       int64_t pad_h, int64_t pad_w)
    : Pass(transforms, src, dst, groups, pad_h, pad_w),
      in_parts_(DivideUp(group_in_, kUnitIn)),
      out_parts_(DivideUp(DivideUp(group_out_, kVector), kUnitOutBlocks)) {}

WeightPass::Plan WeightPass::PlanFor(int threads) const {
  const auto elements = static_cast<size_t>(transforms_.elements());
  Plan plan;
  plan.block_tiles = BlockTiles(src_.images, tiling_.per_image());
  plan.plane = BlockStride(plan.block_tiles);
  plan.v_stride = ElementStride(static_cast<size_t>(src_.blocks()) * plan.plane);
  plan.z_stride = ElementStride(static_cast<size_t>(dst_.blocks()) * plan.plane);
  plan.d_stride = ElementStride(static_cast<size_t>(kUnitIn) * kUnitRow);
  plan.v = 0;
  plan.z = elements * plan.v_stride;
  plan.own = plan.z + elements * plan.z_stride;
  plan.tiles = elements * plan.d_stride;
  plan.thread_floats = plan.tiles + TileFloats(plan.block_tiles);
  plan.total = plan.own + plan.thread_floats * static_cast<size_t>(threads);
  return plan;
}

WeightPass::Unit WeightPass::UnitAt(int64_t index) const {
  Unit unit;
  unit.in = index % in_parts_ * kUnitIn;
  unit.ins = std::min(kUnitIn, group_in_ - unit.in);
  const int64_t part = index / in_parts_ % out_parts_;
  const int64_t blocks = DivideUp(group_out_, kVector);  // shared out as evenly as it goes
  unit.out_block = blocks * part / out_parts_;
  unit.out_blocks = blocks * (part + 1) / out_parts_ - unit.out_block;
  unit.group = index / in_parts_ / out_parts_;
  return unit;
}

void WeightPass::Run(int threads, const float* src, const float* d_dst, float* d_weights,
                     float* scratch) const {
  const Plan plan = PlanFor(threads);
  float *v = scratch + plan.v, *z = scratch + plan.z;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    float* own =
        scratch + plan.own + static_cast<size_t>(omp_get_thread_num()) * plan.thread_floats;
    auto* tiles = reinterpret_cast<Tile*>(own + plan.tiles);
    for (int64_t first = 0; first < tiling_.count(); first += plan.block_tiles) {
      const TileBlock block =
          tiling_.Block(first, std::min(first + plan.block_tiles, tiling_.count()), tiles);
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < src_.blocks() + dst_.blocks(); ++i) {
        const int64_t o = i - src_.blocks();
        if (o < 0) {
          transforms_.input(block, src_.Block(src, i), pad_h_, pad_w_,
                            v + static_cast<size_t>(i) * plan.plane, plan.v_stride);
        } else {
          transforms_.output_adjoint(block, dst_.Block(d_dst, o),
                                     z + static_cast<size_t>(o) * plan.plane, plan.z_stride);
        }
      }
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < units(); ++i) {
        Accumulate(plan, block, UnitAt(i), v, z, own, d_weights);
      }
    }
  }
}

void WeightPass::Accumulate(const Plan& plan, const TileBlock& block, const Unit& unit,
                            const float* v, const float* z, float* d, float* d_weights) const {
  const int points = transforms_.points();
  const int64_t in_block = (unit.group * group_in_ + unit.in) / kVector;
  const int64_t out_block = unit.group * group_out_ / kVector + unit.out_block;
  for (int row = 0; row < points; ++row) {
    for (int col = 0; col < points; ++col) {
      const auto element = static_cast<size_t>(row * points + col);
      const auto [begin, end] = tiling_.WithPoint(block, row, col);
      const float* v_e = v + element * plan.v_stride + static_cast<size_t>(begin) * kVector;
      const float* z_e = z + element * plan.z_stride + static_cast<size_t>(begin) * kVector +
                         static_cast<size_t>(out_block) * plan.plane;
      for (int64_t parts = DivideUp(unit.out_blocks, kWeightOutBlocks), b = 0; parts > 0; --parts) {
        const int64_t blocks = (unit.out_blocks - b) / parts;
        for (int64_t i = 0; i < unit.ins; i += kWeightInChannels) {
          MultiplyOverTiles(
              end - begin,
              v_e + static_cast<size_t>(in_block + i / kVector) * plan.plane + i % kVector,
              z_e + static_cast<size_t>(b) * plan.plane, plan.plane, static_cast<int>(blocks),
              d + element * plan.d_stride + static_cast<size_t>(i) * kUnitRow + b * kVector,
              kUnitRow);
        }
        b += blocks;
      }
    }
  }
  const int64_t taps = transforms_.r * transforms_.r;
  for (int64_t b = 0; b < unit.out_blocks; ++b) {
    const int64_t out = (unit.out_block + b) * kVector;
    transforms_.filters_adjoint(
        d + b * kVector, plan.d_stride, kUnitRow, group_out_ - out, unit.ins, group_in_,
        d_weights + ((unit.group * group_out_ + out) * group_in_ + unit.in) * taps);
  }
}

}  // namespace carafe::winograd
