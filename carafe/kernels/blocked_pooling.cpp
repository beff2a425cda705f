#include "carafe/kernels/blocked_pooling.h"

#include <algorithm>
#include <cfloat>

#include "carafe/base/float8.h"
#include "carafe/core/format.h"
#include "carafe/kernels/cpu_for.h"

namespace carafe {
namespace {

constexpr int64_t kLanes = 8;

// The part of a window that lies inside the plane, along one axis. `first` is where the window
// begins, which may be outside; `area` counts padding, too.
struct Span {
  int64_t first, begin, end, area;
  Span(int64_t index, int64_t kernel, int64_t stride, int64_t pad, int64_t size)
      : first(index * stride - pad),
        begin(std::max<int64_t>(first, 0)),
        end(std::min(first + kernel, size)),
        area(std::max<int64_t>(std::min(first + kernel, size + pad) - first, 0)) {}
};
Span Rows(const PoolGeometry& g, int64_t ph) {
  return Span(ph, g.kernel_h, g.stride_h, g.pad_h, g.height);
}
Span Columns(const PoolGeometry& g, int64_t pw) {
  return Span(pw, g.kernel_w, g.stride_w, g.pad_w, g.width);
}

// Calls edge(pw) for the windows of a row that the left or right border cuts, and whole(pw) for
// those between.
template <typename Edge, typename Whole>
void ForWindows(const PoolGeometry& g, const Edge& edge, const Whole& whole) {
  int64_t pw = 0;
  for (; pw < g.pooled_width && pw * g.stride_w < g.pad_w; ++pw) edge(pw);
  for (; pw < g.pooled_width && pw * g.stride_w - g.pad_w + g.kernel_w <= g.width; ++pw) whole(pw);
  for (; pw < g.pooled_width; ++pw) edge(pw);
}

// Maximum of the rows x columns of a window at x; K > 0 fixes its size, so that the loops unroll.
// k0 is the window position of the first element, kernel_w the step between rows.
template <bool kWhere, int K>
inline void MaxWindow(const float* x, int64_t step, int64_t rows, int64_t columns, int32_t k0,
                      int32_t kernel_w, float* y, uint8_t* where) {
  Float8 best = All8(-FLT_MAX);
  Int8 at = All8(static_cast<int32_t>(kMaxBlockedWindow));
  for (int64_t h = 0; h < (K > 0 ? K : rows); ++h) {
    for (int64_t w = 0; w < (K > 0 ? K : columns); ++w) {
      const Float8 v = Load8(x + h * step + w * kLanes);
      const Int8 better = v > best;
      best = better ? v : best;
      if (kWhere) {
        const int32_t k = k0 + static_cast<int32_t>(h) * kernel_w + static_cast<int32_t>(w);
        at = better ? All8(k) : at;
      }
    }
  }
  Store8(y, best);
  if (kWhere) StoreBytes8(where, at);
}

template <bool kWhere, int K>
void MaxRow(const PoolGeometry& g, int64_t i, const float* x, float* y, uint8_t* where) {
  const Span rows = Rows(g, i % g.pooled_height);
  const int64_t step = g.width * kLanes;
  const float* plane = x + i / g.pooled_height * g.height * step;
  float* out = y + i * g.pooled_width * kLanes;
  uint8_t* at = kWhere ? where + i * g.pooled_width * kLanes : nullptr;
  const int32_t kernel_w = static_cast<int32_t>(g.kernel_w);
  const auto edge = [&](int64_t pw) {
    const Span columns = Columns(g, pw);
    const int64_t k0 = (rows.begin - rows.first) * g.kernel_w + columns.begin - columns.first;
    MaxWindow<kWhere, 0>(plane + rows.begin * step + columns.begin * kLanes, step,
                         rows.end - rows.begin, columns.end - columns.begin,
                         static_cast<int32_t>(k0), kernel_w, out + pw * kLanes,
                         kWhere ? at + pw * kLanes : nullptr);
  };
  if (K == 0 || rows.end - rows.begin != g.kernel_h) {
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) edge(pw);
    return;
  }
  const float* line = plane + rows.begin * step - g.pad_w * kLanes;
  ForWindows(g, edge, [&](int64_t pw) {
    MaxWindow<kWhere, K>(line + pw * g.stride_w * kLanes, step, K, K, 0, K, out + pw * kLanes,
                         kWhere ? at + pw * kLanes : nullptr);
  });
}

template <bool kWhere>
void MaxForward(Stream& stream, const PoolGeometry& g, const float* x, float* y, uint8_t* where) {
  const int64_t cost = g.pooled_width * kLanes * g.kernel_h * g.kernel_w / 4;
  const int64_t k = g.kernel_h == g.kernel_w ? g.kernel_h : 0;
  CpuFor(stream, g.planes * g.pooled_height, cost, [&](int64_t i) {
    if (k == 2) return MaxRow<kWhere, 2>(g, i, x, y, where);
    if (k == 3) return MaxRow<kWhere, 3>(g, i, x, y, where);
    MaxRow<kWhere, 0>(g, i, x, y, where);
  });
}

// Whether a window can lie wholly outside of the plane along one axis.
bool HasEmpty(int64_t pooled, int64_t kernel, int64_t stride, int64_t pad, int64_t size) {
  return (pooled - 1) * stride - pad >= size || kernel <= pad;
}

// Zeroes the rows of a plane just before the first window adds to them, while they go to the cache.
class RowCleaner {
 public:
  RowCleaner(const PoolGeometry& g, float* plane) : g_(g), plane_(plane) {}
  void UpTo(int64_t end) {
    if (end <= done_) return;
    std::memset(plane_ + done_ * g_.width * kLanes, 0,
                static_cast<size_t>((end - done_) * g_.width * kLanes) * sizeof(float));
    done_ = end;
  }

 private:
  const PoolGeometry& g_;
  float* const plane_;
  int64_t done_ = 0;
};

// Windows of 2 x 2 side by side write every element once.
void MaxBackwardTwoByTwo(const PoolGeometry& g, const uint8_t* where, const float* dy, float* dx) {
  const int64_t step = g.width * kLanes;
  for (int64_t ph = 0; ph < g.pooled_height; ++ph) {
    float* top = dx + 2 * ph * step;
    const bool low = 2 * ph + 1 < g.height;
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const int64_t i = (ph * g.pooled_width + pw) * kLanes;
      const Int8 at = LoadBytes8(where + i);
      const Float8 d = Load8(dy + i);
      float* to = top + 2 * pw * kLanes;
      const bool right = 2 * pw + 1 < g.width;
      Store8(to, Keep8(at == 0, d));
      if (right) Store8(to + kLanes, Keep8(at == 1, d));
      if (low) Store8(to + step, Keep8(at == 2, d));
      if (low && right) Store8(to + step + kLanes, Keep8(at == 3, d));
    }
  }
}

template <int K>
inline void AddWhere(float* x, int64_t step, int64_t rows, int64_t columns, int32_t k0,
                     int32_t kernel_w, Int8 at, Float8 d) {
  for (int64_t h = 0; h < (K > 0 ? K : rows); ++h) {
    for (int64_t w = 0; w < (K > 0 ? K : columns); ++w) {
      float* to = x + h * step + w * kLanes;
      const int32_t k = k0 + static_cast<int32_t>(h) * kernel_w + static_cast<int32_t>(w);
      Store8(to, Load8(to) + Keep8(at == k, d));
    }
  }
}

template <int K>
void MaxBackwardPlane(const PoolGeometry& g, const uint8_t* where, const float* dy, float* dx) {
  const int64_t step = g.width * kLanes;
  const int32_t kernel_w = static_cast<int32_t>(g.kernel_w);
  RowCleaner clean(g, dx);
  for (int64_t ph = 0; ph < g.pooled_height; ++ph) {
    const Span rows = Rows(g, ph);
    clean.UpTo(rows.end);
    const int64_t first = ph * g.pooled_width * kLanes;
    const auto edge = [&](int64_t pw) {
      const Span columns = Columns(g, pw);
      const int64_t k0 = (rows.begin - rows.first) * g.kernel_w + columns.begin - columns.first;
      const int64_t i = first + pw * kLanes;
      AddWhere<0>(dx + rows.begin * step + columns.begin * kLanes, step, rows.end - rows.begin,
                  columns.end - columns.begin, static_cast<int32_t>(k0), kernel_w,
                  LoadBytes8(where + i), Load8(dy + i));
    };
    if (K == 0 || rows.end - rows.begin != g.kernel_h) {
      for (int64_t pw = 0; pw < g.pooled_width; ++pw) edge(pw);
      continue;
    }
    float* line = dx + rows.begin * step - g.pad_w * kLanes;
    ForWindows(g, edge, [&](int64_t pw) {
      const int64_t i = first + pw * kLanes;
      AddWhere<K>(line + pw * g.stride_w * kLanes, step, K, K, 0, K, LoadBytes8(where + i),
                  Load8(dy + i));
    });
  }
  clean.UpTo(g.height);
}

void AverageRow(const PoolGeometry& g, int64_t i, const float* x, float* y) {
  const Span rows = Rows(g, i % g.pooled_height);
  const int64_t step = g.width * kLanes;
  const float* plane = x + i / g.pooled_height * g.height * step;
  for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
    const Span columns = Columns(g, pw);
    Float8 sum = All8(0.0f);
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        sum += Load8(plane + h * step + w * kLanes);
      }
    }
    const int64_t area = rows.area * columns.area;
    Store8(y + (i * g.pooled_width + pw) * kLanes,
           area > 0 ? sum / All8(static_cast<float>(area)) : All8(0.0f));
  }
}

void AverageBackwardPlane(const PoolGeometry& g, const float* dy, float* dx) {
  const int64_t step = g.width * kLanes;
  RowCleaner clean(g, dx);
  for (int64_t ph = 0; ph < g.pooled_height; ++ph) {
    const Span rows = Rows(g, ph);
    clean.UpTo(rows.end);
    for (int64_t pw = 0; pw < g.pooled_width; ++pw) {
      const Span columns = Columns(g, pw);
      const int64_t area = rows.area * columns.area;
      if (area == 0) continue;
      const Float8 part =
          Load8(dy + (ph * g.pooled_width + pw) * kLanes) / All8(static_cast<float>(area));
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          float* to = dx + h * step + w * kLanes;
          Store8(to, Load8(to) + part);
        }
      }
    }
  }
  clean.UpTo(g.height);
}

int64_t PlaneCost(const PoolGeometry& g) {
  return kLanes * (g.in_size() + g.out_size() * g.kernel_h * g.kernel_w / 4);
}

}  // namespace

void BlockedMaxPoolForward(Stream& stream, const PoolGeometry& g, int64_t channels, const float* x,
                           float* y, uint8_t* where) {
  if (where != nullptr) {
    MaxForward<true>(stream, g, x, y, where);
  } else {
    MaxForward<false>(stream, g, x, y, where);
  }
  if (HasEmpty(g.pooled_height, g.kernel_h, g.stride_h, g.pad_h, g.height) ||
      HasEmpty(g.pooled_width, g.kernel_w, g.stride_w, g.pad_w, g.width)) {
    const int64_t blocks = (channels + kLanes - 1) / kLanes;
    ZeroPadding(stream, {g.planes / blocks, channels, g.out_size()}, y);
  }
}

void BlockedMaxPoolBackward(Stream& stream, const PoolGeometry& g, const uint8_t* where,
                            const float* dy, float* dx) {
  const int64_t k = g.kernel_h == g.kernel_w ? g.kernel_h : 0;
  const bool tiles = k == 2 && g.stride_h == 2 && g.stride_w == 2 && g.pad_h == 0 && g.pad_w == 0 &&
                     (g.height + 1) / 2 == g.pooled_height && (g.width + 1) / 2 == g.pooled_width;
  CpuFor(stream, g.planes, PlaneCost(g), [&](int64_t p) {
    const int64_t out = p * g.out_size() * kLanes, in = p * g.in_size() * kLanes;
    if (tiles) return MaxBackwardTwoByTwo(g, where + out, dy + out, dx + in);
    if (k == 2) return MaxBackwardPlane<2>(g, where + out, dy + out, dx + in);
    if (k == 3) return MaxBackwardPlane<3>(g, where + out, dy + out, dx + in);
    MaxBackwardPlane<0>(g, where + out, dy + out, dx + in);
  });
}

void BlockedAveragePoolForward(Stream& stream, const PoolGeometry& g, const float* x, float* y) {
  const int64_t cost = g.pooled_width * kLanes * g.kernel_h * g.kernel_w / 4;
  CpuFor(stream, g.planes * g.pooled_height, cost, [&](int64_t i) { AverageRow(g, i, x, y); });
}

void BlockedAveragePoolBackward(Stream& stream, const PoolGeometry& g, const float* dy, float* dx) {
  CpuFor(stream, g.planes, PlaneCost(g), [&](int64_t p) {
    AverageBackwardPlane(g, dy + p * g.out_size() * kLanes, dx + p * g.in_size() * kLanes);
  });
}

}  // namespace carafe
