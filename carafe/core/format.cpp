#include "carafe/core/format.h"

#include <algorithm>
#include <vector>

#include "carafe/base/float8.h"
#include "carafe/core/reorder_count.h"

namespace carafe {
namespace {

thread_local int64_t reorders = 0;

// Fewer elements than this are not worth waking other threads for.
constexpr int64_t kSerialCount = 16384;

// `channels` (1 to 8) planes of `plane` elements become (plane, 8).
void BlockFromPlanes(int64_t channels, int64_t plane, const float* from, float* to) {
  int64_t s = 0;
  if (channels == kBlockChannels) {
    for (; s + 8 <= plane; s += 8) {
      Float8 r[8];
      for (int c = 0; c < 8; ++c) r[c] = Load8(from + c * plane + s);
      Transpose8(r);
      for (int c = 0; c < 8; ++c) Store8(to + (s + c) * kBlockChannels, r[c]);
    }
  }
  for (; s < plane; ++s) {
    for (int64_t c = 0; c < kBlockChannels; ++c) {
      to[s * kBlockChannels + c] = c < channels ? from[c * plane + s] : 0.0f;
    }
  }
}

void PlanesFromBlock(int64_t channels, int64_t plane, const float* from, float* to) {
  int64_t s = 0;
  if (channels == kBlockChannels) {
    for (; s + 8 <= plane; s += 8) {
      Float8 r[8];
      for (int c = 0; c < 8; ++c) r[c] = Load8(from + (s + c) * kBlockChannels);
      Transpose8(r);
      for (int c = 0; c < 8; ++c) Store8(to + c * plane + s, r[c]);
    }
  }
  for (; s < plane; ++s) {
    for (int64_t c = 0; c < channels; ++c) to[c * plane + s] = from[s * kBlockChannels + c];
  }
}

// Block number i of all images: where it lies in either format, and how many channels it has.
struct Place {
  int64_t plain, blocked, channels;
};
Place PlaceOf(const BlockedGeometry& g, int64_t i) {
  const int64_t n = i / g.blocks(), first = i % g.blocks() * kBlockChannels;
  return {(n * g.channels + first) * g.plane, i * kBlockChannels * g.plane,
          std::min(kBlockChannels, g.channels - first)};
}

template <typename F>
void ForEachBlock(Stream& stream, const BlockedGeometry& g, const F& f) {
  const int64_t blocks = g.images * g.blocks();
  if (stream.threads() <= 1 || g.count() < kSerialCount || blocks < 2) {
    for (int64_t i = 0; i < blocks; ++i) f(PlaceOf(g, i));
    return;
  }
#pragma omp parallel for schedule(static) num_threads(stream.threads())
  for (int64_t i = 0; i < blocks; ++i) f(PlaceOf(g, i));
}

// Room for one block; each thread keeps its own.
float* Scratch(const BlockedGeometry& g) {
  thread_local std::vector<float> scratch;
  const size_t need = static_cast<size_t>(g.plane * kBlockChannels);
  if (scratch.size() < need) scratch.resize(need);
  return scratch.data();
}

// Blocks of one pixel and eight channels are the same in both formats.
bool SameInBoth(const BlockedGeometry& g) {
  return g.count() == 0 || (g.plane == 1 && g.channels % kBlockChannels == 0);
}

void BlockInPlace(const BlockedGeometry& g, const Place& at, float* values) {
  float* scratch = Scratch(g);
  BlockFromPlanes(at.channels, g.plane, values + at.plain, scratch);
  std::copy_n(scratch, g.plane * kBlockChannels, values + at.blocked);
}

void PlanesInPlace(const BlockedGeometry& g, const Place& at, float* values) {
  float* scratch = Scratch(g);
  PlanesFromBlock(at.channels, g.plane, values + at.blocked, scratch);
  std::copy_n(scratch, g.plane * at.channels, values + at.plain);
}

}  // namespace

const char* FormatName(Format format) { return format == Format::kPlain ? "plain" : "blocked8"; }

int64_t ReordersOfThisThread() { return reorders; }

// Where the channels fill their blocks, each block is the same piece of memory in both formats, and
// threads can work side by side. Else blocks move up (or down), and go from the last to the first
// (or back), so that none is overwritten before it has been read.
void PlainToBlocked(Stream& stream, const BlockedGeometry& g, float* values) {
  if (SameInBoth(g)) return;
  ++reorders;
  if (g.channels % kBlockChannels == 0) {
    return ForEachBlock(stream, g, [&](const Place& at) { BlockInPlace(g, at, values); });
  }
  for (int64_t i = g.images * g.blocks(); i-- > 0;) BlockInPlace(g, PlaceOf(g, i), values);
}

void BlockedToPlain(Stream& stream, const BlockedGeometry& g, float* values) {
  if (SameInBoth(g)) return;
  ++reorders;
  if (g.channels % kBlockChannels == 0) {
    return ForEachBlock(stream, g, [&](const Place& at) { PlanesInPlace(g, at, values); });
  }
  const int64_t blocks = g.images * g.blocks();
  for (int64_t i = 0; i < blocks; ++i) PlanesInPlace(g, PlaceOf(g, i), values);
}

void PlainToBlocked(Stream& stream, const BlockedGeometry& g, const float* plain, float* blocked) {
  ForEachBlock(stream, g, [&](const Place& at) {
    BlockFromPlanes(at.channels, g.plane, plain + at.plain, blocked + at.blocked);
  });
}

void BlockedToPlain(Stream& stream, const BlockedGeometry& g, const float* blocked, float* plain) {
  ForEachBlock(stream, g, [&](const Place& at) {
    PlanesFromBlock(at.channels, g.plane, blocked + at.blocked, plain + at.plain);
  });
}

// Every iteration asks for that of every blob whose channels do not fill their blocks: whole
// vectors, for a few floats at a time cost a call of memset each.
void ZeroPadding(Stream& stream, const BlockedGeometry& g, float* blocked) {
  const int64_t used = g.channels % kBlockChannels;
  if (used == 0) return;
  Int8 keep;
  for (int64_t c = 0; c < kBlockChannels; ++c) keep[c] = c < used ? -1 : 0;
  const auto clear = [&](int64_t n) {
    float* last = blocked + ((n + 1) * g.blocks() - 1) * g.plane * kBlockChannels;
    for (int64_t s = 0; s < g.plane; ++s, last += kBlockChannels) {
      Store8(last, Keep8(keep, Load8(last)));
    }
  };
  if (stream.threads() <= 1 || g.images * g.plane * kBlockChannels < 4 * kSerialCount) {
    for (int64_t n = 0; n < g.images; ++n) clear(n);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(stream.threads())
  for (int64_t n = 0; n < g.images; ++n) clear(n);
}

}  // namespace carafe
