#include <algorithm>
#include <cstring>

#include <omp.h>

#include "carafe/kernels/winograd_gemm.h"
#include "carafe/kernels/winograd_passes.h"
#include "carafe/kernels/winograd_scratch.h"

namespace carafe::winograd {

bool AdjointPass::Pays() const {
  const Tiling turned(1, src_.h, src_.w, transforms_.m, transforms_.r);
  return 4 * tiling_.per_image() <= 3 * turned.per_image();
}

AdjointPass::Plan AdjointPass::PlanFor(int threads) const {
  const auto elements = static_cast<size_t>(transforms_.elements());
  Plan plan;
  plan.block_images = std::clamp<int64_t>(PreferredTiles(group_out_) / tiling_.per_image(), 1,
                                          std::max<int64_t>(dst_.images / threads, 1));
  plan.parts = DivideUp(group_in_, kOutChannels);
  const int64_t tiles = plan.block_images * tiling_.per_image();
  plan.z_block = BlockStride(tiles);
  plan.z_stride = ElementStride(static_cast<size_t>(DivideUp(group_out_, kVector)) * plan.z_block);
  plan.m_stride = ElementStride(2 * plan.z_block);
  plan.u_stride = ElementStride(static_cast<size_t>(group_out_ * kOutChannels));
  plan.u_part = elements * plan.u_stride;
  plan.u = 0;
  plan.tiles = plan.u_part * static_cast<size_t>(groups_ * plan.parts);
  plan.z = plan.tiles + TileFloats(tiles);
  plan.m = plan.z + elements * plan.z_stride;
  plan.thread_floats = plan.m + elements * plan.m_stride - plan.tiles;
  plan.total = plan.tiles + plan.thread_floats * static_cast<size_t>(threads);
  return plan;
}

void AdjointPass::Run(int threads, const float* d_dst, const float* weights, float* d_src,
                      float* scratch) const {
  const Plan plan = PlanFor(threads);
  const int64_t blocks = DivideUp(dst_.images, plan.block_images);
  const int64_t taps = transforms_.r * transforms_.r;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
#pragma omp for schedule(dynamic)
    for (int64_t part = 0; part < groups_ * plan.parts; ++part) {
      const float* group = weights + part / plan.parts * group_in_ * group_out_ * taps;
      transforms_.filters({group, group_in_, group_out_, /*backward=*/true, /*turned=*/false},
                          part % plan.parts * kOutChannels,
                          scratch + plan.u + static_cast<size_t>(part) * plan.u_part,
                          plan.u_stride);
    }
    const size_t own = static_cast<size_t>(omp_get_thread_num()) * plan.thread_floats;
    auto* tiles = reinterpret_cast<Tile*>(scratch + plan.tiles + own);
#pragma omp for schedule(dynamic)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b * plan.block_images;
      const int64_t last = std::min(first + plan.block_images, dst_.images);
      const TileBlock block =
          tiling_.Block(first * tiling_.per_image(), last * tiling_.per_image(), tiles);
      const size_t image = static_cast<size_t>(src_.blocks()) * src_.plane_floats();
      std::memset(d_src + static_cast<size_t>(first) * image, 0,
                  static_cast<size_t>(last - first) * image * sizeof(float));
      for (int64_t group = 0; group < groups_; ++group) {
        RunGroup(plan, block, group, d_dst,
                 scratch + plan.u + static_cast<size_t>(group * plan.parts) * plan.u_part,
                 scratch + plan.z + own, scratch + plan.m + own, d_src);
      }
    }
  }
}

void AdjointPass::RunGroup(const Plan& plan, const TileBlock& block, int64_t group,
                           const float* d_dst, const float* u, float* z, float* m,
                           float* d_src) const {
  const int points = transforms_.points();
  const int64_t out_blocks = DivideUp(group_out_, kVector);
  for (int64_t o = 0; o < out_blocks; ++o) {
    transforms_.output_adjoint(block, dst_.Block(d_dst, group * out_blocks + o),
                               z + static_cast<size_t>(o) * plan.z_block, plan.z_stride);
  }
  for (int64_t part = 0; part < plan.parts; ++part) {
    const int64_t first = part * kOutChannels;
    const int in_blocks = OutBlocks(first, group_in_);
    for (int row = 0; row < points; ++row) {
      for (int col = 0; col < points; ++col) {
        const auto element = static_cast<size_t>(row * points + col);
        const auto [begin, end] = tiling_.WithPoint(block, row, col);
        const size_t tile = static_cast<size_t>(begin) * kVector;
        MultiplyFilters(end - begin, group_out_, z + element * plan.z_stride + tile, plan.z_block,
                        u + static_cast<size_t>(part) * plan.u_part + element * plan.u_stride,
                        in_blocks, m + element * plan.m_stride + tile, plan.z_block);
      }
    }
    const int64_t in_block = group * (group_in_ / kVector) + first / kVector;
    for (int64_t i = 0; i < in_blocks; ++i) {
      transforms_.input_adjoint(block, m + static_cast<size_t>(i) * plan.z_block, plan.m_stride,
                                pad_h_, pad_w_, src_.Block(d_src, in_block + i));
    }
  }
}

}  // namespace carafe::winograd
