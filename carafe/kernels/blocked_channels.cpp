#include "carafe/kernels/blocked_channels.h"

#include <algorithm>
#include <vector>

#include "carafe/base/float8.h"
#include "carafe/kernels/cpu_for.h"

namespace carafe {
namespace {

constexpr int64_t kLanes = kBlockChannels;

// One block of one image: where its pixels start, its first channel and how many channels it has.
struct Piece {
  int64_t index, at, channel, channels;
};

template <typename F>
void ForPieces(const Stream& stream, const BlockedGeometry& g, int64_t cost, const F& f) {
  const int64_t blocks = g.blocks();
  CpuFor(stream, g.images * blocks, g.plane * kLanes * cost, [&](int64_t i) {
    const int64_t channel = i % blocks * kLanes;
    f(Piece{i, i * g.plane * kLanes, channel, g.channels - channel});
  });
}

Float8 ChannelNumbers(const float* numbers, const Piece& piece, float otherwise) {
  if (numbers == nullptr) return All8(otherwise);
  return LoadPart8(numbers + piece.channel, piece.channels);
}

// Sums of (piece, term) over the images: total[block] = sum over n of parts[n][block], `terms`
// vectors each.
class Parts {
 public:
  Parts(const BlockedGeometry& g, int64_t terms) : g_(g), terms_(terms) {
    thread_local std::vector<float> memory;  // of the calling thread; threads of the loop share it
    const size_t need = static_cast<size_t>(g.images * g.blocks() * terms * kLanes);
    if (memory.size() < need) memory.resize(need);
    parts_ = memory.data();
  }
  void Set(int64_t piece, int64_t term, Float8 v) {
    Store8(parts_ + (piece * terms_ + term) * kLanes, v);
  }
  Float8 Get(int64_t piece, int64_t term) const {
    return Load8(parts_ + (piece * terms_ + term) * kLanes);
  }
  Float8 Total(int64_t block, int64_t term) const {
    Float8 sum = All8(0.0f);
    for (int64_t n = 0; n < g_.images; ++n) sum += Get(n * g_.blocks() + block, term);
    return sum;
  }

 private:
  const BlockedGeometry g_;
  const int64_t terms_;
  float* parts_;
};

// Adds up f(0), f(1), .. f(n-1) in four chains, so that the additions need not wait for each other.
template <typename F>
inline Float8 SumOf(int64_t n, const F& f) {
  Float8 a = All8(0.0f), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a += f(i);
    b += f(i + 1);
    c += f(i + 2);
    d += f(i + 3);
  }
  for (; i < n; ++i) a += f(i);
  return (a + b) + (c + d);
}

void AddTotals(const BlockedGeometry& g, const Parts& parts, int64_t term, float* sums) {
  if (sums == nullptr) return;
  for (int64_t b = 0; b < g.blocks(); ++b) {
    const int64_t first = b * kLanes, left = g.channels - first;
    StorePart8(sums + first, left, LoadPart8(sums + first, left) + parts.Total(b, term));
  }
}

}  // namespace

void BlockedScale(Stream& stream, const BlockedGeometry& g, const float* scale, const float* shift,
                  bool relu, const float* x, float* y) {
  const Float8 floor = All8(relu ? 0.0f : -__builtin_inff());
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const Float8 a = ChannelNumbers(scale, piece, 1), b = ChannelNumbers(shift, piece, 0);
    const float* in = x + piece.at;
    float* out = y + piece.at;
    for (int64_t i = 0; i < g.plane * kLanes; i += kLanes) {
      const Float8 v = Load8(in + i) * a + b;
      Store8(out + i, v < floor ? floor : v);
    }
  });
}

void BlockedAddSums(Stream& stream, const BlockedGeometry& g, const float* x, const float* y,
                    float* sums, float* products) {
  Parts parts(g, 2);
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const float* a = x + piece.at;
    if (sums != nullptr) {
      parts.Set(piece.index, 0, SumOf(g.plane, [&](int64_t i) { return Load8(a + i * kLanes); }));
    }
    if (products != nullptr) {
      const float* b = y + piece.at;
      parts.Set(piece.index, 1, SumOf(g.plane, [&](int64_t i) {
                  return Load8(a + i * kLanes) * Load8(b + i * kLanes);
                }));
    }
  });
  AddTotals(g, parts, 0, sums);
  AddTotals(g, parts, 1, products);
}

// Each piece gives its own mean m_n and squares around it; over images of equal size
//   mean = mean of m_n,   variance = (sum of squares_n + plane * sum of (m_n - mean)^2) / count
void BlockedStatistics(Stream& stream, const BlockedGeometry& g, const float* x, float* mean,
                       float* variance) {
  Parts parts(g, 2);
  const Float8 size = All8(static_cast<float>(g.plane));
  ForPieces(stream, g, 2, [&](const Piece& piece) {
    const float* in = x + piece.at;
    const Float8 middle = SumOf(g.plane, [&](int64_t i) { return Load8(in + i * kLanes); }) / size;
    parts.Set(piece.index, 0, middle);
    parts.Set(piece.index, 1, SumOf(g.plane, [&](int64_t i) {
                const Float8 off = Load8(in + i * kLanes) - middle;
                return off * off;
              }));
  });
  const float images = static_cast<float>(g.images);
  for (int64_t b = 0; b < g.blocks(); ++b) {
    const Float8 middle = parts.Total(b, 0) / All8(images);
    Float8 squares = parts.Total(b, 1);
    for (int64_t n = 0; n < g.images; ++n) {
      const Float8 off = parts.Get(n * g.blocks() + b, 0) - middle;
      squares += size * off * off;
    }
    const int64_t first = b * kLanes, left = g.channels - first;
    StorePart8(mean + first, left, middle);
    StorePart8(variance + first, left, squares / (size * All8(images)));
  }
}

void BlockedNormalize(Stream& stream, const BlockedGeometry& g, const float* mean,
                      const float* factor, const float* scale, const float* shift, bool relu,
                      const float* x, float* normalized, float* y) {
  const Float8 floor = All8(relu ? 0.0f : -__builtin_inff());
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const Float8 middle = ChannelNumbers(mean, piece, 0), f = ChannelNumbers(factor, piece, 1);
    const Float8 a = ChannelNumbers(scale, piece, 1), b = ChannelNumbers(shift, piece, 0);
    const float* in = x + piece.at;
    float* out = y + piece.at;
    float* keep = normalized == nullptr ? nullptr : normalized + piece.at;
    for (int64_t i = 0; i < g.plane * kLanes; i += kLanes) {
      const Float8 v = (Load8(in + i) - middle) * f;
      if (keep != nullptr) Store8(keep + i, v);
      const Float8 scaled = v * a + b;
      Store8(out + i, scaled < floor ? floor : scaled);
    }
  });
}

namespace {

// Mean and factor are numbers that do not depend on x.
void ConstantBackward(Stream& stream, const BlockedGeometry& g, const BlockedNormalizeGradient& d) {
  Parts parts(g, 2);
  ForPieces(stream, g, 2, [&](const Piece& piece) {
    const Float8 middle = ChannelNumbers(d.mean, piece, 0);
    const Float8 f = ChannelNumbers(d.factor, piece, 1);
    const Float8 gain = f * ChannelNumbers(d.scale, piece, 1);
    Float8 sum = All8(0.0f), product = All8(0.0f);
    for (int64_t i = piece.at; i < piece.at + g.plane * kLanes; i += kLanes) {
      Float8 v = Load8(d.dy + i);
      if (d.relu_of != nullptr) v = Keep8(Load8(d.relu_of + i) > All8(0.0f), v);
      sum += v;
      if (d.dscale != nullptr) product += v * (Load8(d.x + i) - middle);
      if (d.dx != nullptr) Store8(d.dx + i, v * gain);
    }
    parts.Set(piece.index, 0, sum);
    parts.Set(piece.index, 1, d.mean == nullptr ? product : product * f);
  });
  AddTotals(g, parts, 0, d.dshift);
  AddTotals(g, parts, 1, d.dscale);
}

}  // namespace

void BlockedNormalizeBackward(Stream& stream, const BlockedGeometry& g,
                              const BlockedNormalizeGradient& d) {
  if (d.constant_statistics) return ConstantBackward(stream, g, d);
  Parts parts(g, 2);
  // What comes from above, after the ReLU that may follow.
  const auto above = [&](const Piece& piece, int64_t i) {
    const Float8 v = Load8(d.dy + piece.at + i * kLanes);
    if (d.relu_of == nullptr) return v;
    return Keep8(Load8(d.relu_of + piece.at + i * kLanes) > All8(0.0f), v);
  };
  ForPieces(stream, g, 2, [&](const Piece& piece) {
    const Float8 middle = ChannelNumbers(d.mean, piece, 0);
    const Float8 f = d.mean == nullptr ? All8(1.0f) : ChannelNumbers(d.factor, piece, 1);
    const float* x = d.x + piece.at;
    Float8 sum[2] = {All8(0.0f), All8(0.0f)}, product[2] = {All8(0.0f), All8(0.0f)};
    for (int64_t i = 0; i < g.plane; ++i) {
      const Float8 v = above(piece, i);
      sum[i % 2] += v;
      product[i % 2] += v * (Load8(x + i * kLanes) - middle);
    }
    parts.Set(piece.index, 0, sum[0] + sum[1]);
    parts.Set(piece.index, 1, (product[0] + product[1]) * f);
  });
  AddTotals(g, parts, 0, d.dshift);
  AddTotals(g, parts, 1, d.dscale);
  if (d.dx == nullptr) return;
  thread_local std::vector<float> kept;  // of the calling thread, as in Parts
  std::vector<float>& totals = kept;
  totals.resize(static_cast<size_t>(2 * g.blocks() * kLanes));
  const Float8 count = All8(static_cast<float>(g.images * g.plane));
  for (int64_t b = 0; b < g.blocks(); ++b) {
    Store8(totals.data() + 2 * b * kLanes, parts.Total(b, 0) / count);
    Store8(totals.data() + (2 * b + 1) * kLanes, parts.Total(b, 1) / count);
  }
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const Float8 middle = ChannelNumbers(d.mean, piece, 0);
    const Float8 f = ChannelNumbers(d.factor, piece, 1);
    const Float8 gain = f * ChannelNumbers(d.scale, piece, 1);
    const Float8 mean_dy = Load8(totals.data() + 2 * piece.channel);
    // x^ * mean(dy x^) = (x - middle) * slope
    const Float8 slope =
        Load8(totals.data() + 2 * piece.channel + kLanes) * (d.mean == nullptr ? All8(1.0f) : f);
    const float* x = d.x + piece.at;
    float* dx = d.dx + piece.at;
    for (int64_t i = 0; i < g.plane; ++i) {
      const Float8 v = above(piece, i) - mean_dy - (Load8(x + i * kLanes) - middle) * slope;
      Store8(dx + i * kLanes, v * gain);
    }
  });
}

void BlockedPRelu(Stream& stream, const BlockedGeometry& g, const float* slopes, const float* sign,
                  const float* x, float* y) {
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const Float8 slope = ChannelNumbers(slopes, piece, 0);
    for (int64_t i = piece.at; i < piece.at + g.plane * kLanes; i += kLanes) {
      const Float8 v = Load8(x + i);
      Store8(y + i, Load8(sign + i) > All8(0.0f) ? v : slope * v);
    }
  });
}

void BlockedAddPReluSlopes(Stream& stream, const BlockedGeometry& g, const float* x,
                           const float* dy, float* ds) {
  Parts parts(g, 1);
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    parts.Set(piece.index, 0, SumOf(g.plane, [&](int64_t i) {
                const Float8 v = Load8(x + piece.at + i * kLanes);
                return Keep8(~(v > All8(0.0f)), v * Load8(dy + piece.at + i * kLanes));
              }));
  });
  AddTotals(g, parts, 0, ds);
}

void BlockedMultiplyMask(Stream& stream, const BlockedGeometry& g, float scale, const uint8_t* mask,
                         const float* x, float* y) {
  ForPieces(stream, g, 1, [&](const Piece& piece) {
    const int64_t image = piece.index / g.blocks(), n = std::min(piece.channels, kLanes);
    const uint8_t* from = mask + (image * g.channels + piece.channel) * g.plane;
    for (int64_t i = 0; i < g.plane; ++i) {
      const int64_t at = piece.at + i * kLanes;
      for (int64_t c = 0; c < n; ++c) {
        y[at + c] = x[at + c] * (static_cast<float>(from[c * g.plane + i]) * scale);
      }
      for (int64_t c = n; c < kLanes; ++c) y[at + c] = 0;
    }
  });
}

}  // namespace carafe
