#include <algorithm>
#include <cstring>

#include <omp.h>

#include "carafe/kernels/winograd_gemm.h"
#include "carafe/kernels/winograd_passes.h"
#include "carafe/kernels/winograd_scratch.h"

namespace carafe::winograd {
namespace {

constexpr int64_t kOneBlockTiles = 264;
constexpr int64_t kOneBlockChannels = 160;
constexpr int64_t kLeastTiles = 24;
constexpr int64_t kChunk = 32;  // out channels

}  // namespace

ImagePass::Plan ImagePass::PlanFor(int threads) const {
  const int64_t tiles = tiling_.count();
  const auto elements = static_cast<size_t>(transforms_.elements());
  Plan plan;
  plan.one_block =
      tiles <= kOneBlockTiles && (group_in_ >= kOneBlockChannels || tiles < threads * kLeastTiles);
  if (plan.one_block) {
    plan.blocks = 1;
  } else {
    plan.blocks = RoundUp(DivideUp(tiles, PreferredTiles(group_in_)), threads);
  }
  plan.block_tiles = DivideUp(tiles, plan.blocks);
  if (!plan.one_block) plan.block_tiles = std::min(tiles, RoundUp(plan.block_tiles, 6));
  plan.blocks = DivideUp(tiles, plan.block_tiles);
  plan.chunk = std::min(kChunk, RoundUp(group_out_, kOutChannels));
  if (plan.one_block && groups_ * DivideUp(group_out_, plan.chunk) < threads) {
    plan.chunk = kOutChannels;
  }
  plan.group_chunks = DivideUp(group_out_, plan.chunk);

  const int64_t v_channels = plan.one_block ? src_.blocks() : DivideUp(group_in_, kVector);
  plan.v_block = BlockStride(plan.block_tiles);
  plan.v_stride = ElementStride(static_cast<size_t>(v_channels) * plan.v_block);
  plan.m_block = plan.v_block;
  plan.m_stride = ElementStride(static_cast<size_t>(plan.chunk / kVector) * plan.m_block);
  plan.u_stride = ElementStride(static_cast<size_t>(group_in_ * kOutChannels));
  const size_t u_chunk = elements * plan.u_stride * static_cast<size_t>(plan.chunk / kOutChannels);
  const size_t v_floats = elements * plan.v_stride, m_floats = elements * plan.m_stride;

  const size_t tile_floats = TileFloats(plan.block_tiles);
  plan.bias = 0;
  const size_t shared = RoundToLines(static_cast<size_t>(dst_.blocks() * kVector));
  if (plan.one_block) {  // tiles and v are shared, u is each thread's
    plan.tiles = shared;
    plan.v = plan.tiles + tile_floats;
    plan.u = plan.v + v_floats;
    plan.m = plan.u + u_chunk;
    plan.thread_floats = u_chunk + m_floats;
    plan.total = plan.u + plan.thread_floats * static_cast<size_t>(threads);
  } else {
    plan.u = shared;
    plan.tiles = plan.u + u_chunk * static_cast<size_t>(groups_ * plan.group_chunks);
    plan.v = plan.tiles + tile_floats;
    plan.m = plan.v + v_floats;
    plan.thread_floats = tile_floats + v_floats + m_floats;
    plan.total = plan.tiles + plan.thread_floats * static_cast<size_t>(threads);
  }
  return plan;
}

FilterMatrixView ImagePass::GroupFilters(const float* weights, int64_t group) const {
  const int64_t ins = backward_ ? group_out_ : group_in_;
  const int64_t outs = backward_ ? group_in_ : group_out_;
  return {weights + group * ins * outs * transforms_.r * transforms_.r, ins, outs, backward_,
          /*turned=*/backward_};
}

void ImagePass::Run(int threads, const float* src, const float* weights, const float* bias,
                    float lowest, float* dst, float* scratch) const {
  const Plan plan = PlanFor(threads);
  float* padded_bias = scratch + plan.bias;
  std::fill_n(padded_bias, dst_.blocks() * kVector, 0.0f);
  if (bias != nullptr) std::copy_n(bias, dst_.channels, padded_bias);
  if (plan.one_block) {
    RunOneBlock(plan, src, weights, lowest, dst, scratch, threads);
  } else {
    RunBlocks(plan, src, weights, lowest, dst, scratch, threads);
  }
}

void ImagePass::RunBlocks(const Plan& plan, const float* src, const float* weights, float lowest,
                          float* dst, float* scratch, int threads) const {
  const int64_t group_parts = plan.group_chunks * plan.chunk / kOutChannels;  // of 16 out channels
  const size_t u_part = static_cast<size_t>(transforms_.elements()) * plan.u_stride;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
#pragma omp for schedule(dynamic)
    for (int64_t part = 0; part < groups_ * group_parts; ++part) {
      transforms_.filters(GroupFilters(weights, part / group_parts),
                          part % group_parts * kOutChannels,
                          scratch + plan.u + static_cast<size_t>(part) * u_part, plan.u_stride);
    }
    const size_t own = static_cast<size_t>(omp_get_thread_num()) * plan.thread_floats;
    float *v = scratch + plan.v + own, *m = scratch + plan.m + own;
    auto* tiles = reinterpret_cast<Tile*>(scratch + plan.tiles + own);
#pragma omp for schedule(dynamic)
    for (int64_t b = 0; b < plan.blocks; ++b) {
      const int64_t first = b * plan.block_tiles;
      const TileBlock block =
          tiling_.Block(first, std::min(first + plan.block_tiles, tiling_.count()), tiles);
      for (int64_t group = 0; group < groups_; ++group) {
        const int64_t group_blocks = DivideUp(group_in_, kVector);
        for (int64_t i = 0; i < group_blocks; ++i) {
          transforms_.input(block, src_.Block(src, group * group_blocks + i), pad_h_, pad_w_,
                            v + static_cast<size_t>(i) * plan.v_block, plan.v_stride);
        }
        const float* u = scratch + plan.u + static_cast<size_t>(group * group_parts) * u_part;
        for (int64_t o = 0; o < group_out_; o += plan.chunk) {
          MultiplyChunk(plan, block, group, o, v,
                        u + static_cast<size_t>(o / kOutChannels) * u_part, scratch + plan.bias,
                        lowest, m, dst);
        }
      }
    }
  }
}

void ImagePass::RunOneBlock(const Plan& plan, const float* src, const float* weights, float lowest,
                            float* dst, float* scratch, int threads) const {
  const TileBlock block =
      tiling_.Block(0, tiling_.count(), reinterpret_cast<Tile*>(scratch + plan.tiles));
  const size_t u_part = static_cast<size_t>(transforms_.elements()) * plan.u_stride;
  const int64_t group_blocks = DivideUp(group_in_, kVector);
  float* v = scratch + plan.v;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < src_.blocks(); ++i) {
      transforms_.input(block, src_.Block(src, i), pad_h_, pad_w_,
                        v + static_cast<size_t>(i) * plan.v_block, plan.v_stride);
    }
    const size_t own = static_cast<size_t>(omp_get_thread_num()) * plan.thread_floats;
    float *u = scratch + plan.u + own, *m = scratch + plan.m + own;
#pragma omp for schedule(dynamic)
    for (int64_t c = 0; c < groups_ * plan.group_chunks; ++c) {
      const int64_t group = c / plan.group_chunks, first = c % plan.group_chunks * plan.chunk;
      for (int64_t o = first; o < std::min(first + plan.chunk, group_out_); o += kOutChannels) {
        transforms_.filters(GroupFilters(weights, group), o,
                            u + static_cast<size_t>((o - first) / kOutChannels) * u_part,
                            plan.u_stride);
      }
      MultiplyChunk(plan, block, group, first,
                    v + static_cast<size_t>(group * group_blocks) * plan.v_block, u,
                    scratch + plan.bias, lowest, m, dst);
    }
  }
}

void ImagePass::MultiplyChunk(const Plan& plan, const TileBlock& block, int64_t group,
                              int64_t first, const float* v, const float* u, const float* bias,
                              float lowest, float* m, float* dst) const {
  const int64_t last = std::min(first + plan.chunk, group_out_);
  const int points = transforms_.points();
  const size_t u_part = static_cast<size_t>(transforms_.elements()) * plan.u_stride;
  for (int row = 0; row < points; ++row) {
    for (int col = 0; col < points; ++col) {
      const auto element = static_cast<size_t>(row * points + col);
      const auto [begin, end] = tiling_.WithPoint(block, row, col);
      const size_t tile = static_cast<size_t>(begin) * kVector;
      for (int64_t o = first; o < last; o += kOutChannels) {
        const auto part = static_cast<size_t>((o - first) / kOutChannels);
        MultiplyFilters(end - begin, group_in_, v + element * plan.v_stride + tile, plan.v_block,
                        u + part * u_part + element * plan.u_stride, OutBlocks(o, last),
                        m + element * plan.m_stride + 2 * part * plan.m_block + tile, plan.m_block);
      }
    }
  }
  const int64_t group_block =
      group * (group_out_ / kVector);  // group_out_ is a multiple if group > 0
  for (int64_t o = first; o < last; o += kVector) {
    const int64_t out_block = group_block + o / kVector;
    transforms_.output(block, m + static_cast<size_t>((o - first) / kVector) * plan.m_block,
                       plan.m_stride, bias + out_block * kVector, lowest,
                       dst_.Block(dst, out_block));
  }
}

}  // namespace carafe::winograd
