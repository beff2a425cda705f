#include "carafe/net/multiply_adds.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>

#include "carafe/base/error.h"

namespace carafe {
namespace {

struct Sizes {
  const Shapes& bottoms;
  const Shapes& tops;
  const Shapes& params;
};

int64_t Product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw ConfigError(fmt::format("{} times {} multiply-adds are more than 63 bits hold", a, b),
                      "correct the layer's sizes");
  }
  return result;
}

int64_t Sum(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    throw ConfigError("the multiply-adds are more than 63 bits hold", "correct the layer's sizes");
  }
  return result;
}

// Every output sums over C/group channels and the window: weights are (O, C/group, kernel..).
int64_t Convolution(const Sizes& s) {
  int64_t sum = 0;
  for (const Shape& top : s.tops) sum = Sum(sum, Product(top.Count(), s.params[0].Count(1)));
  return sum;
}

// Every input spreads over O/group channels and the window: weights are (C, O/group, kernel..).
int64_t Deconvolution(const Sizes& s) {
  int64_t sum = 0;
  for (const Shape& x : s.bottoms) sum = Sum(sum, Product(x.Count(), s.params[0].Count(1)));
  return sum;
}

// rows x K x N; the weights hold K x N.
int64_t InnerProduct(const Sizes& s) {
  const int64_t outputs = s.tops[0].rank() > 0 ? s.tops[0][-1] : 1;
  return Product(outputs == 0 ? 0 : s.tops[0].Count() / outputs, s.params[0].Count());
}

// Steps T and sequences N: every matrix is applied at each step, but that of the static input (the
// third of four or more matrices and vectors, see layers/recurrent.h) once per sequence.
int64_t Recurrent(const Sizes& s, size_t cell_params) {
  const bool has_static = s.params.size() == 4 + cell_params;
  const int64_t sequences = s.bottoms[0][1], all_steps = s.bottoms[0].Count(0, 2);
  int64_t sum = 0;
  for (size_t i = 0; i < s.params.size(); ++i) {
    if (s.params[i].rank() < 2) continue;
    const int64_t times = has_static && i == 2 ? sequences : all_steps;
    sum = Sum(sum, Product(times, s.params[i].Count()));
  }
  return sum;
}

const std::map<std::string, std::function<int64_t(const Sizes&)>>& Rules() {
  static const std::map<std::string, std::function<int64_t(const Sizes&)>> rules = {
      {"Convolution", Convolution},
      {"Deconvolution", Deconvolution},
      {"InnerProduct", InnerProduct},
      {"LSTM", [](const Sizes& s) { return Recurrent(s, 0); }},
      {"RNN", [](const Sizes& s) { return Recurrent(s, 2); }},  // W_o and b_o of the output
  };
  return rules;
}

}  // namespace

int64_t MultiplyAdds(const LayerParameter& layer, const Shapes& bottoms, const Shapes& tops,
                     const Shapes& params) {
  const auto rule = Rules().find(layer.type());
  if (rule == Rules().end() || params.empty()) return 0;
  return rule->second({bottoms, tops, params});
}

}  // namespace carafe
