#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& param) {
  return "type: \"InnerProduct\" inner_product_param { " + param + " }";
}

struct Case {
  const char* name;
  const char* param;
  Shape bottom, top;
};
const Case kCases[] = {
    {"FlattensFromAxisOne", "num_output: 5", {2, 3, 4}, {2, 5}},
    {"CountsAxisFromTheEnd", "num_output: 5 axis: -1", {2, 3, 4}, {2, 3, 5}},
    {"TakesAllAsOneVectorFromAxisZero", "num_output: 4 axis: 0", {2, 3}, {4}},
    {"WithoutBias", "num_output: 1 bias_term: false", {7, 2}, {7, 1}},
    {"WithTransposedWeights", "num_output: 3 transpose: true", {2, 3, 2}, {2, 3}},
};

class InnerProductTest : public ::testing::TestWithParam<Case> {};
TEST_P(InnerProductTest, InfersTopShapeAndGradients) {
  LayerTester<double> layer(Text(GetParam().param), GetParam().bottom);
  EXPECT_EQ(layer.top().shape(), GetParam().top);
  EXPECT_LT(GradientError(layer), 1e-8);
}
INSTANTIATE_TEST_SUITE_P(Layers, InnerProductTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(InnerProduct, AddsBiasToEachRow) {
  LayerTester<float> layer(Text("num_output: 2"), {2, 2});
  layer.SetBottom({1, 2, 0, 1}).SetParam(0, {3, 4, 5, 6}).SetParam(1, {10, 20}).Forward();
  EXPECT_THAT(layer.top_values(), ::testing::ElementsAre(21, 37, 14, 26));
}

TEST(InnerProduct, AddsToParameterGradientsButOverwritesTheBottoms) {
  LayerTester<float> layer(Text("num_output: 1"), {1, 2});
  layer.SetBottom({1, 2}).SetParam(0, {3, 4}).SetTopDiff({2}).Forward().Backward().BackwardAgain();
  EXPECT_THAT(layer.param_diff(0), ::testing::ElementsAre(4, 8));
  EXPECT_THAT(layer.param_diff(1), ::testing::ElementsAre(4));
  EXPECT_THAT(layer.bottom_diff(), ::testing::ElementsAre(6, 8));
}

TEST(InnerProduct, LeavesFrozenParametersAlone) {
  LayerTester<float> layer(Text("num_output: 1"), {1, 2});
  layer.layer().set_param_propagate_down(0, false);
  layer.SetBottom({1, 2}).SetParam(0, {3, 4}).SetTopDiff({2}).Forward().Backward();
  EXPECT_THAT(layer.param_diff(0), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(layer.param_diff(1), ::testing::ElementsAre(2));
}

// left^T right by hand, added to `gradient`.
void AddProduct(const Factors<double>& factors, std::vector<double>* gradient) {
  for (int64_t r = 0; r < factors.rows; ++r) {
    for (int64_t i = 0; i < factors.left_width; ++i) {
      for (int64_t j = 0; j < factors.right_width; ++j) {
        At(*gradient, i * factors.right_width + j) +=
            factors.left[r * factors.left_width + i] * factors.right[r * factors.right_width + j];
      }
    }
  }
}

TEST(InnerProduct, OffersTheFactorsOfItsWeightGradient) {
  for (const char* param : {"num_output: 5", "num_output: 5 transpose: true",
                            "num_output: 5 axis: 2 bias_term: false"}) {
    LayerTester<double> layer(Text(param), {3, 4, 2});
    EXPECT_TRUE(layer.layer().HasFactors(0));
    EXPECT_FALSE(layer.layer().HasFactors(1));
    std::vector<double> dy(static_cast<size_t>(layer.Forward().top().count()));
    for (size_t i = 0; i < dy.size(); ++i) dy[i] = 0.25 * static_cast<double>(i) - 1;
    const std::vector<double> plain = layer.SetTopDiff(dy).Backward().param_diff(0);
    layer.layer().set_gives_factors(0, true);
    layer.Backward();
    EXPECT_THAT(layer.param_diff(0), ::testing::Each(0)) << param;
    Blob<double>*top = &layer.top(), *bottom = &layer.bottom();
    std::vector<double> product(plain.size(), 0);
    AddProduct(layer.layer().GradientFactors(0, layer.run().stream, {&top, 1}, {&bottom, 1}),
               &product);
    EXPECT_THAT(product, ::testing::Pointwise(::testing::DoubleNear(1e-12), plain)) << param;
  }
}

// 16 rows in one worker and 4 in each of 4: kernels differ in the order of their sums, so which one
// is used must not depend on the rows that a worker has.
TEST(InnerProduct, GivesARowTheSameBitsForAnyNumberOfWorkers) {
  constexpr int64_t kRows = 16, kWorkers = 4, kIn = 200, kOut = 30;
  for (const int64_t global_batch : {int64_t{0}, kRows}) {
    LayerTester<float> all(Text("num_output: 30 weight_filler { type: \"xavier\" }"), {kRows, kIn});
    const std::vector<float> dy = all.bottom_values();
    all.SetTopDiff({dy.begin(), dy.begin() + kRows * kOut}).Forward().Backward();
    for (int worker = 0; worker < kWorkers; ++worker) {
      LayerTester<float> part(
          Text("num_output: 30"), {kRows / kWorkers, kIn},
          {.replica = {.index = worker, .count = kWorkers, .global_batch = global_batch}});
      std::vector<float> x, d, expected_y, expected_dx;
      const auto add = [](const std::vector<float>& from, int64_t row, int64_t width,
                          std::vector<float>* to) {
        to->insert(to->end(), from.begin() + row * width, from.begin() + (row + 1) * width);
      };
      for (int64_t row = worker; row < kRows; row += kWorkers) {
        add(all.bottom_values(), row, kIn, &x);
        add(dy, row, kOut, &d);
        add(all.top_values(), row, kOut, &expected_y);
        add(all.bottom_diff(), row, kIn, &expected_dx);
      }
      part.SetParam(0, all.param_values(0)).SetParam(1, all.param_values(1));
      part.SetBottom(x).SetTopDiff(d).Forward().Backward();
      EXPECT_EQ(part.top_values(), expected_y);
      EXPECT_EQ(part.bottom_diff(), expected_dx);
    }
  }
}

TEST(InnerProduct, SaysWhereNumOutputIsMissing) {
  const std::string text = "type: \"InnerProduct\"\ninner_product_param {\n  num_output: 0\n}";
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              LayerTester<float>(text, {1, 2});
            }),
            "test.prototxt:3:3: error: layer \"test\" (InnerProduct): num_output is 0 or missing\n"
            "  fix: give the number of outputs, e.g. num_output: 10");
}

}  // namespace
}  // namespace carafe
