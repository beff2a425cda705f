// What LSTM and RNN share: sequences, states, shapes. Their formulas are in tests of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

std::string Text(const std::string& type, const std::string& param = "") {
  return "type: '" + type + "' recurrent_param { num_output: 3 " + param +
         " weight_filler { type: 'uniform' min: -0.5 max: 0.5 } }";
}
// Sequence 0 begins at step 0, sequence 1 again at step 2.
const std::vector<double> kCont = {0, 0, 1, 1, 1, 0, 1, 1};

class RecurrentTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Layers, RecurrentTest, ::testing::Values("LSTM", "RNN"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RecurrentTest, HasRightGradients) {
  LayerTester<double> plain(Text(GetParam()), {{4, 2, 3, 2}, {4, 2}});
  EXPECT_EQ(plain.top().shape(), (Shape{4, 2, 3}));
  plain.SetBottom(kCont, 1);
  EXPECT_LT(GradientError(plain), 1e-7);
  LayerTester<double> fixed(Text(GetParam()), {{4, 2, 3}, {4, 2}, {2, 5}});
  fixed.SetBottom(kCont, 1);
  EXPECT_LT(GradientError(fixed), 1e-7);
}

TEST_P(RecurrentTest, GoesOnFromOneForwardToTheNext) {
  LayerTester<double> whole(Text(GetParam()), {{4, 2, 3}, {4, 2}});
  whole.SetBottom({0, 0, 1, 1, 1, 1, 1, 1}, 1);
  const std::vector<double> x = whole.bottom_values(), y = whole.Forward().top_values();
  LayerTester<double> steps(Text(GetParam()), {{1, 2, 3}, {1, 2}});
  for (int i = 0; i < whole.num_params(); ++i) steps.SetParam(i, whole.param_values(i));
  for (int t = 0; t < 4; ++t) {
    const double cont = t > 0 ? 1 : 0;
    steps.SetBottom({x.begin() + 6 * t, x.begin() + 6 * (t + 1)}).SetBottom({cont, cont}, 1);
    EXPECT_THAT(
        steps.Forward().top_values(),
        ::testing::Pointwise(::testing::DoubleNear(1e-12),
                             std::vector<double>(y.begin() + 6 * t, y.begin() + 6 * t + 6)));
  }
}

TEST_P(RecurrentTest, RepeatsItsLastForwardAfterARewind) {
  LayerTester<double> layer(Text(GetParam()), {{2, 1, 3}, {2, 1}});
  layer.SetBottom({1, 1}, 1).Forward();
  const std::vector<double> second = layer.Forward().top_values();
  ASSERT_TRUE(layer.layer().RewindForward(layer.run().stream, 1));
  EXPECT_EQ(layer.Forward().top_values(), second);
  EXPECT_NE(layer.Forward().top_values(), second);  // without a rewind it goes on
  EXPECT_FALSE(layer.layer().RewindForward(layer.run().stream, 2));
}

TEST_P(RecurrentTest, ForgetsWhereContIsZero) {
  LayerTester<double> layer(Text(GetParam()), {{1, 1, 3}, {1, 1}});
  layer.SetBottom({0}, 1);
  const std::vector<double> first = layer.Forward().top_values();
  EXPECT_EQ(layer.Forward().top_values(), first);
  EXPECT_NE(layer.SetBottom({1}, 1).Forward().top_values(), first);
}

TEST_P(RecurrentTest, KeepsItsStateWhenTheNumberOfStepsChangesAndDropsItWhenThatOfSequencesDoes) {
  LayerTester<double> layer(Text(GetParam()), {{2, 1, 3}, {2, 1}});
  layer.SetBottom({0, 1}, 1).Forward();
  LayerTester<double> same(Text(GetParam()), {{2, 1, 3}, {2, 1}});
  same.SetBottom({0, 1}, 1).Forward();
  layer.SetBottomShape({1, 1, 3}, 0).SetBottomShape({1, 1}, 1).SetBottom({1}, 1);
  const std::vector<double> x = layer.bottom_values();
  same.SetBottom({x[0], x[1], x[2], 0, 0, 0}).SetBottom({1, 1}, 1).Forward();
  const std::vector<double> y = same.top_values();
  EXPECT_THAT(layer.Forward().top_values(), ::testing::ElementsAre(y[0], y[1], y[2]));
  layer.SetBottomShape({1, 2, 3}, 0).SetBottomShape({1, 2}, 1).SetBottom({1, 1}, 1).Forward();
  const std::vector<double> fresh = layer.top_values();
  LayerTester<double> started(Text(GetParam()), {{1, 2, 3}, {1, 2}});
  EXPECT_EQ(started.SetBottom({0, 0}, 1).SetBottom(layer.bottom_values()).Forward().top_values(),
            fresh);
}

TEST_P(RecurrentTest, TakesAndGivesExposedStates) {
  const int states = std::string(GetParam()) == "LSTM" ? 2 : 1;
  Shapes bottoms = {{2, 1, 3}, {2, 1}};
  for (int s = 0; s < states; ++s) bottoms.push_back({1, 1, 3});
  LayerTester<double> exposed(Text(GetParam(), "expose_hidden: true"), bottoms,
                              {.tops = 1 + states});
  exposed.SetBottom({1, 1}, 1);
  for (int s = 0; s < states; ++s) exposed.SetBottom({0, 0, 0}, 2 + s);
  exposed.Forward();
  LayerTester<double> plain(Text(GetParam()), {{2, 1, 3}, {2, 1}});
  plain.SetBottom({0, 1}, 1).Forward();
  EXPECT_THAT(exposed.top_values(),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), plain.top_values()));
  plain.SetBottom({1, 1}, 1).Forward();
  for (int s = 0; s < states; ++s) exposed.SetBottom(exposed.top_values(1 + s), 2 + s);
  exposed.Forward();
  EXPECT_THAT(exposed.top_values(),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), plain.top_values()));
  GradientOptions options{.bottoms = {0}, .tops = {0}};
  EXPECT_LT(GradientError(exposed, options), 1e-7);
}

TEST_P(RecurrentTest, RefusesBottomsThatDoNotFit) {
  const std::string type = GetParam();
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              LayerTester<float>(Text(type), {{4, 2, 3}, {2, 4}});
            }),
            "test.prototxt: error: layer \"test\" (" + type +
                "): cont must have the shape (T, N) of the input 4 2 3 (24), not 2 4 (8)\n"
                "  fix: give one number per step and sequence");
  EXPECT_THROW(LayerTester<float>("type: '" + type + "'", {{4, 2, 3}, {4, 2}}), ConfigError);
  EXPECT_THROW(LayerTester<float>(Text(type), {{4, 2, 3}, {4, 2}, {3, 1}}), ConfigError);
  EXPECT_THROW(LayerTester<float>(Text(type, "expose_hidden: true"), {{4, 2, 3}, {4, 2}}),
               ConfigError);
}

}  // namespace
}  // namespace carafe
