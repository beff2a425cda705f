#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(InfogainLoss, IsSoftmaxWithLossForTheIdentity) {
  LayerTester<double> infogain("type: 'InfogainLoss'", {{2, 3, 2}, {2, 2}, {3, 3}});
  infogain.SetBottom({0, 2, 1, 1}, 1)
      .SetBottom({1, 0, 0, 0, 1, 0, 0, 0, 1}, 2)
      .Forward()
      .Backward({true, false, false});
  LayerTester<double> softmax("type: 'SoftmaxWithLoss'", {{2, 3, 2}, {2, 2}});
  softmax.SetBottom({0, 2, 1, 1}, 1).Forward().Backward();
  EXPECT_NEAR(infogain.top_values()[0], softmax.top_values()[0], 1e-12);
  EXPECT_THAT(infogain.bottom_diff(),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), softmax.bottom_diff()));
}

TEST(InfogainLoss, HasRightGradients) {
  for (const char* param :
       {"", "loss_param { ignore_label: 1 }", "loss_param { normalization: FULL }",
        "infogain_loss_param { axis: -1 }"}) {
    const bool last = std::string(param).find("axis") != std::string::npos;
    LayerTester<double> layer(std::string("type: 'InfogainLoss' ") + param,
                              {last ? Shape{2, 2, 3} : Shape{2, 3, 2}, {2, 2}, {3, 3}});
    layer.SetBottom({0, 2, 1, 1}, 1).SetBottom({1, .2, .1, .3, 2, .4, 0, .5, .7}, 2);
    EXPECT_LT(GradientError(layer, {.bottoms = {0}}), 1e-8) << param;
  }
}

TEST(InfogainLoss, ReadsItsMatrixFromAFile) {
  BlobProto proto;
  for (const float value : {1.f, .2f, .3f, 2.f}) proto.add_data(value);
  const std::string path = ::testing::TempDir() + "/infogain.binaryproto";
  WriteFileAtomically(path, proto.SerializeAsString());
  LayerTester<double> file("type: 'InfogainLoss' infogain_loss_param { source: '" + path + "' }",
                           {{2, 2}, {2}});
  LayerTester<double> bottom("type: 'InfogainLoss'", {{2, 2}, {2}, {2, 2}});
  bottom.SetBottom({0, 1}, 1).SetBottom({1, .2, .3, 2}, 2).Forward();
  EXPECT_NEAR(file.SetBottom({0, 1}, 1).Forward().top_values()[0], bottom.top_values()[0], 1e-6);
  EXPECT_THROW(LayerTester<double>("type: 'InfogainLoss'", {{2, 2}, {2}}), ConfigError);
  EXPECT_THROW(LayerTester<double>("type: 'InfogainLoss' infogain_loss_param { source: 'nowhere' }",
                                   {{2, 2}, {2}}),
               DataError);
  EXPECT_EQ(ErrorText<ConfigError>([] {
              LayerTester<double>("type: 'InfogainLoss'", {{2, 2}, {2}, {3, 3}});
            }),
            "test.prototxt: error: layer \"test\" (InfogainLoss): the matrix has 9 elements, but 2 "
            "classes need 2 x 2\n  fix: give a row and a column per class");
}

}  // namespace
}  // namespace carafe
