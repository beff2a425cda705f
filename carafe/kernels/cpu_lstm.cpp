#include "carafe/kernels/cpu_lstm.h"

#include <algorithm>

#include "carafe/kernels/cpu_for.h"
#include "carafe/kernels/float8_math.h"

namespace carafe {
namespace {

// Calls cells(r, i, n) for the n <= 8 cells from i on of row r.
template <typename Cells>
void ForCells(Stream& stream, int64_t rows, int64_t width, int64_t cost, const Cells& cells) {
  CpuFor(stream, rows, width * cost, [&](int64_t r) {
    int64_t i = 0;
    for (; i + 8 <= width; i += 8) cells(r, i, std::integral_constant<int64_t, 8>());
    if (i < width) cells(r, i, width - i);
  });
}

}  // namespace

void CpuLstmForward(Stream& stream, int64_t rows, int64_t width, const float* c_prev,
                    const float* cont, float* gates, float* c, float* h) {
  ForCells(stream, rows, width, 16, [&](int64_t r, int64_t i, auto n) {
    float* gate = gates + r * 4 * width + i;
    const int64_t cell = r * width + i;
    const Float8 in = Sigmoid8(LoadPart8(gate, n));
    const Float8 forget =
        cont[r] == 0 ? All8(0.0f) : All8(cont[r]) * Sigmoid8(LoadPart8(gate + width, n));
    const Float8 out = Sigmoid8(LoadPart8(gate + 2 * width, n));
    const Float8 value = Tanh8(LoadPart8(gate + 3 * width, n));
    StorePart8(gate, n, in);
    StorePart8(gate + width, n, forget);
    StorePart8(gate + 2 * width, n, out);
    StorePart8(gate + 3 * width, n, value);
    const Float8 state = forget * LoadPart8(c_prev + cell, n) + in * value;
    StorePart8(c + cell, n, state);
    StorePart8(h + cell, n, out * Tanh8(state));
  });
}

void CpuLstmBackward(Stream& stream, int64_t rows, int64_t width, const float* c_prev,
                     const float* gates, const float* c, const float* dh, const float* dc,
                     float* dc_prev, float* dgates) {
  const Float8 one = All8(1.0f);
  ForCells(stream, rows, width, 8, [&](int64_t r, int64_t i, auto n) {
    const float* gate = gates + r * 4 * width + i;
    float* dgate = dgates + r * 4 * width + i;
    const int64_t cell = r * width + i;
    const Float8 in = LoadPart8(gate, n), forget = LoadPart8(gate + width, n);
    const Float8 out = LoadPart8(gate + 2 * width, n), value = LoadPart8(gate + 3 * width, n);
    const Float8 tanh_c = Tanh8(LoadPart8(c + cell, n)), above = LoadPart8(dh + cell, n);
    const Float8 term = LoadPart8(dc + cell, n) + above * out * (one - tanh_c * tanh_c);
    StorePart8(dgate, n, term * value * in * (one - in));
    StorePart8(dgate + width, n, term * LoadPart8(c_prev + cell, n) * forget * (one - forget));
    StorePart8(dgate + 2 * width, n, above * tanh_c * out * (one - out));
    StorePart8(dgate + 3 * width, n, term * in * (one - value * value));
    StorePart8(dc_prev + cell, n, term * forget);
  });
}

}  // namespace carafe
