#include "carafe/proto/upgrade.h"

#include <gtest/gtest.h>

#include "carafe/proto/text.h"

namespace carafe {
namespace {

TEST(Upgrade, StopsThreeParametersOfBatchNormFromBeingLearned) {
  NetParameter net;
  ParseText(R"(layer { name: "bn" type: "BatchNorm" param { lr_mult: 1 } param { } param { } }
               layer { name: "ip" type: "InnerProduct" param { lr_mult: 1 } })",
            "net.prototxt", &net);
  EXPECT_TRUE(UpgradeBatchNorm(&net));
  for (const ParamSpec& param : net.layer(0).param()) {
    EXPECT_EQ(param.lr_mult(), 0);
    EXPECT_EQ(param.decay_mult(), 0);
  }
  EXPECT_EQ(net.layer(1).param(0).lr_mult(), 1);
  EXPECT_FALSE(UpgradeBatchNorm(&net));
}

}  // namespace
}  // namespace carafe
