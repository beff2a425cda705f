// Layers that know the blocked format: the same numbers as in the plain one, and no reorder on the
// way up or down.
#include "carafe/layers/memory_format.h"

#include <gtest/gtest.h>

#include "tests/support/blocked_arrays.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

struct Case {
  const char* name;
  const char* text;
  Shapes bottoms;
  TesterOptions options = {};
  Format top = Format::kBlocked8;  // what must come out
};

const Shapes kMap = {{3, 16, 6, 5}};
const Shapes kPart = {{3, 13, 6, 5}};  // channels that do not fill their blocks
const Shapes kTwo = {{2, 16, 4, 5}, {2, 16, 4, 5}};
const Shapes kThree = {{2, 11, 4, 5}, {2, 11, 4, 5}, {2, 11, 4, 5}};
constexpr TesterOptions kInPlace{.in_place = true};
constexpr TesterOptions kTest{.phase = TEST};
constexpr TesterOptions kTestInPlace{.phase = TEST, .in_place = true};
constexpr TesterOptions kTwoTops{.tops = 2};

const Case kCases[] = {
    {"MaxPooling", "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }", kMap},
    {"MaxPoolingOfAPart", "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 pad: 1 }",
     kPart},
    {"AveragePooling", "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }",
     kPart},
    {"GlobalPooling", "type: 'Pooling' pooling_param { pool: AVE global_pooling: true }", kMap},
    {"PoolingWithPositions", "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 }", kMap,
     kTwoTops, Format::kPlain},
    {"LrnAcross", "type: 'LRN' lrn_param { local_size: 5 alpha: 0.5 }", kPart},
    {"LrnWithin", "type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }",
     kPart},
    {"LrnOfAWideWindow",
     "type: 'LRN' lrn_param { local_size: 11 alpha: 0.5 }",
     kMap,
     {},
     Format::kPlain},
    {"BatchNorm", "type: 'BatchNorm'", kPart},
    {"BatchNormInPlace", "type: 'BatchNorm'", kMap, kInPlace},
    {"BatchNormByRunningStatistics", "type: 'BatchNorm'", kMap, kTest},
    {"BatchNormThatScales",
     "type: 'BatchNorm' batch_norm_param { scale_filler { type: 'uniform' min: 0.5 max: 2 } "
     "bias_filler { type: 'uniform' } }",
     kPart},
    {"BatchNormThatScalesInPlace",
     "type: 'BatchNorm' batch_norm_param { scale_filler { type: 'uniform' min: 0.5 max: 2 } "
     "bias_filler { type: 'uniform' } }",
     kPart, kInPlace},
    {"BatchNormThatScalesByRunningStatistics",
     "type: 'BatchNorm' batch_norm_param { scale_filler { type: 'uniform' min: 0.5 max: 2 } "
     "bias_filler { type: 'uniform' } }",
     kPart, kTestInPlace},
    {"Scale", "type: 'Scale' scale_param { filler { type: 'uniform' } }", kPart},
    {"ScaleWithBiasInPlace",
     "type: 'Scale' scale_param { filler { type: 'uniform' } bias_term: true bias_filler { type: "
     "'uniform' } }",
     kPart, kInPlace},
    {"ScaleOfRows",
     "type: 'Scale' scale_param { axis: 2 num_axes: 1 filler { type: 'uniform' } }",
     kMap,
     {},
     Format::kPlain},
    {"Bias", "type: 'Bias' bias_param { filler { type: 'uniform' } }", kPart},
    {"BiasInPlace", "type: 'Bias' bias_param { filler { type: 'uniform' } }", kMap, kInPlace},
    {"Relu", "type: 'ReLU'", kPart},
    {"ReluInPlace", "type: 'ReLU' relu_param { negative_slope: 0.1 }", kMap, kInPlace},
    {"PRelu", "type: 'PReLU' prelu_param { filler { type: 'uniform' } }", kPart},
    {"PReluInPlace", "type: 'PReLU' prelu_param { filler { type: 'uniform' } }", kPart, kInPlace},
    {"PReluOfOneSlope",
     "type: 'PReLU' prelu_param { channel_shared: true }",
     kPart,
     {},
     Format::kPlain},
    {"Sigmoid", "type: 'Sigmoid'", kPart},
    {"TanhInPlace", "type: 'TanH'", kPart, kInPlace},
    {"ElementwisePower", "type: 'Power' power_param { power: 2 scale: 0.5 shift: 3 }", kPart,
     kInPlace},
    {"LogarithmOfZero", "type: 'Log' log_param { scale: 0 shift: 2 }", kPart},
    {"Dropout", "type: 'Dropout' dropout_param { dropout_ratio: 0.3 }", kPart},
    {"DropoutInPlace", "type: 'Dropout'", kMap, kInPlace},
    {"DropoutInTest", "type: 'Dropout'", kMap, kTest},
    {"EltwiseSum", "type: 'Eltwise' eltwise_param { coeff: [1, -2, 0.5] }", kThree},
    {"EltwiseProduct", "type: 'Eltwise' eltwise_param { operation: PROD }", kThree},
    {"EltwiseProductByQuotients",
     "type: 'Eltwise' eltwise_param { operation: PROD stable_prod_grad: false }", kThree},
    {"EltwiseMax", "type: 'Eltwise' eltwise_param { operation: MAX }", kThree},
    {"Concat", "type: 'Concat'", kTwo},
    {"ConcatThatEndsWithAPart", "type: 'Concat'", {{2, 16, 4, 5}, {2, 8, 4, 5}, {2, 3, 4, 5}}},
    {"ConcatOfParts", "type: 'Concat'", kThree, {}, Format::kPlain},
    {"ConcatOfImages", "type: 'Concat' concat_param { axis: 0 }", kTwo, {}, Format::kPlain},
    {"Slice", "type: 'Slice'", kMap, kTwoTops},
    {"SliceWithARest", "type: 'Slice' slice_param { slice_point: 8 }", kPart, kTwoTops},
    {"SliceInsideABlock", "type: 'Slice' slice_param { slice_point: 4 }", kPart, kTwoTops,
     Format::kPlain},
    {"Split", "type: 'Split'", kPart, kTwoTops},
};

class LayerFormatTest : public ::testing::TestWithParam<Case> {
 protected:
  static TesterOptions Options(Format format, int threads) {
    TesterOptions options = GetParam().options;
    options.format = format;
    options.threads = threads;
    return options;
  }
};

void SetTopDiffs(LayerTester<float>& layer) {
  for (int i = 0; i < layer.num_tops(); ++i) {
    layer.SetTopDiff(RandomFloats(layer.top(i).count(), 50 + static_cast<unsigned>(i)), i);
  }
}

TEST_P(LayerFormatTest, GivesTheNumbersOfThePlainFormatWithoutAReorder) {
  const Case& c = GetParam();
  LayerTester<float> plain(c.text, c.bottoms, Options(Format::kPlain, 1));
  LayerTester<float> blocked(c.text, c.bottoms, Options(Format::kBlocked8, 2));
  if (plain.layer().spec().phase() == TEST && plain.num_params() >= 3) {  // BatchNorm
    for (LayerTester<float>* layer : {&plain, &blocked}) {
      const int64_t channels = c.bottoms[0][1];
      layer->SetParam(0, RandomFloats(channels, 7))
          .SetParam(1, RandomFloats(channels, 8, 0.5f, 2))
          .SetParam(2, {2});
    }
  }
  for (int round = 0; round < 2; ++round) {  // the second finds memory that was used
    SetTopDiffs(plain);
    SetTopDiffs(blocked);
    plain.Forward();
    blocked.Forward();
    std::vector<std::vector<float>> tops;
    for (int i = 0; i < plain.num_tops(); ++i) {
      EXPECT_EQ(blocked.top(i).data_format(), c.top) << "top " << i;
      tops.push_back(plain.top_values(i));
      Blob<float> copy(blocked.top(i).shape());  // so that the top stays as it is
      if (c.top == Format::kBlocked8) {
        const BlockedGeometry g = copy.blocked_geometry();
        const float* y = blocked.top(i).data(blocked.run().stream, c.top);
        EXPECT_LT(LargestError(tops.back(), Plain(g, {y, y + g.padded_count()})), 2e-6);
      } else {
        EXPECT_LT(LargestError(tops.back(), blocked.top_values(i)), 2e-6);
      }
    }
    plain.Backward();
    blocked.Backward();
    for (int i = 0; i < plain.num_bottoms(); ++i) {
      if (c.top == Format::kBlocked8) {
        EXPECT_EQ(blocked.bottom(i).diff_format(), Format::kBlocked8) << "bottom " << i;
        const BlockedGeometry g = blocked.bottom(i).blocked_geometry();
        const float* dx = blocked.bottom(i).diff(blocked.run().stream, Format::kBlocked8);
        Plain(g, {dx, dx + g.padded_count()});  // looks at the padding
      }
      EXPECT_LT(LargestError(plain.bottom_diff(i), blocked.bottom_diff(i)), 2e-5) << "bottom " << i;
    }
    for (int i = 0; i < plain.num_params(); ++i) {
      EXPECT_LT(LargestError(plain.param_values(i), blocked.param_values(i)), 1e-5) << "blob " << i;
      EXPECT_LT(LargestError(plain.param_diff(i), blocked.param_diff(i)), 1e-5) << "blob " << i;
    }
  }
}

// What comes from a layer that knows only the plain format is reordered once.
TEST_P(LayerFormatTest, TakesAPlainGradient) {
  const Case& c = GetParam();
  LayerTester<float> plain(c.text, c.bottoms, Options(Format::kPlain, 1));
  LayerTester<float> blocked(c.text, c.bottoms, Options(Format::kBlocked8, 1));
  SetTopDiffs(plain);
  plain.Forward().Backward();
  blocked.Forward();
  for (int i = 0; i < blocked.num_tops(); ++i) {
    blocked.top(i).data(blocked.run().stream);  // an InnerProduct reads it
    blocked.top(i).SetDiff(blocked.run().stream,
                           RandomFloats(blocked.top(i).count(), 50 + static_cast<unsigned>(i)));
  }
  if (plain.layer().spec().phase() == TEST && plain.num_params() >= 3) return;
  for (auto& blob : blocked.layer().blobs()) blob->ZeroDiff(blocked.run().stream);
  blocked.BackwardAgain();
  for (int i = 0; i < plain.num_bottoms(); ++i) {
    EXPECT_LT(LargestError(plain.bottom_diff(i), blocked.bottom_diff(i)), 2e-5) << "bottom " << i;
  }
  for (int i = 0; i < plain.num_params(); ++i) {
    EXPECT_LT(LargestError(plain.param_diff(i), blocked.param_diff(i)), 1e-5) << "blob " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerFormatTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carafe
