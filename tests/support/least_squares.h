// A net of one layer whose loss has a gradient that a test can write down: least squares over rows
// that are functions of pass and slot. For tests of solvers and exchanges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace carafe {

// loss = 1/(2 K) sum over this worker's K rows r of (a_r . w + c - t_r)^2
struct LeastSquares {
  static constexpr int kWidth = 3;  // elements of w

  // The row in slot `slot` of pass `pass`: a (kWidth numbers), then t.
  static std::vector<double> Row(int64_t pass, int64_t slot);
  // The gradient for w and then c of one pass with `rows` rows in all.
  static std::vector<double> Gradient(int64_t pass, int64_t rows,
                                      const std::vector<double>& w_and_c);
  // The text of the layer, named "squares": parameters squares/0 (w, shape 3, starts at 0.5) and
  // squares/1 (c, shape 1, starts at -0.25), top "loss". `more` is added to the layer's text.
  static std::string Layer(int rows, const std::string& more = "");
};

}  // namespace carafe
