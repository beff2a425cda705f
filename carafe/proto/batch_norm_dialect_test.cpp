#include "carafe/proto/batch_norm_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/proto/text.h"
#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

NetParameter Net(const std::string& layer) {
  NetParameter net;
  ParseText("layer { name: 'bn' type: 'BatchNorm' " + layer + " }", "net.prototxt", &net);
  return net;
}

std::vector<float> Rates(const NetParameter& net) {
  std::vector<float> rates;
  for (const ParamSpec& param : net.layer(0).param()) rates.push_back(param.lr_mult());
  return rates;
}

const char kFillers[] = "batch_norm_param { scale_filler { value: 1 } bias_filler { } } ";

TEST(BatchNormDialect, BringsLearnedParamsBehindTheStatistics) {
  NetParameter whole = Net(std::string(kFillers) +
                           "param { lr_mult: 3 } param { lr_mult: 4 } param { lr_mult: 0 } "
                           "param { lr_mult: 0 } param { lr_mult: 0 }");
  EXPECT_TRUE(UpgradeBatchNorm(&whole));
  EXPECT_THAT(Rates(whole), ElementsAre(0, 0, 0, 3, 4));
  EXPECT_FALSE(UpgradeBatchNorm(&whole)) << "once is enough";
  NetParameter two = Net(std::string(kFillers) + "param { lr_mult: 3 } param { lr_mult: 4 }");
  EXPECT_TRUE(UpgradeBatchNorm(&two));
  EXPECT_THAT(Rates(two), ElementsAre(0, 0, 0, 3, 4));
  NetParameter three =
      Net(std::string(kFillers) + "param { lr_mult: 3 } param { } param { lr_mult: 0 }");
  EXPECT_TRUE(UpgradeBatchNorm(&three));
  EXPECT_THAT(Rates(three), ElementsAre(0, 0, 0, 3, 1));
}

TEST(BatchNormDialect, LeavesParamsOfPlainLayersAndInOurOrderAlone) {
  NetParameter plain = Net("param { lr_mult: 1 } param { lr_mult: 1 }");
  EXPECT_FALSE(UpgradeBatchNorm(&plain));
  NetParameter ours = Net(std::string(kFillers) +
                          "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } "
                          "param { lr_mult: 3 } param { lr_mult: 4 }");
  EXPECT_FALSE(UpgradeBatchNorm(&ours));
  EXPECT_THAT(Rates(ours), ElementsAre(0, 0, 0, 3, 4));
}

std::vector<std::vector<float>> Blobs(const LayerParameter& layer) {
  std::vector<std::vector<float>> blobs;
  for (const BlobProto& blob : layer.blobs()) {
    blobs.emplace_back(blob.data().begin(), blob.data().end());
  }
  return blobs;
}

const char kScaleFirst[] = R"(
    blobs { shape { dim: 1 dim: 2 dim: 1 dim: 1 } data: [1, 2] }
    blobs { num: 1 channels: 2 height: 1 width: 1 data: [3, 4] }
    blobs { shape { dim: 1 dim: 2 dim: 1 dim: 1 } data: [5, 6] }
    blobs { shape { dim: 1 dim: 2 dim: 1 dim: 1 } data: [7, 8] }
    blobs { shape { dim: 1 dim: 1 dim: 1 dim: 1 } data: [0] })";

TEST(BatchNormDialect, BringsBlobsIntoOurOrderWithAFactorOfOne) {
  LayerParameter layer = Net(kScaleFirst).layer(0);
  EXPECT_TRUE(ReorderBatchNormBlobs(&layer));
  EXPECT_THAT(Blobs(layer), ElementsAre(ElementsAre(5, 6), ElementsAre(7, 8), ElementsAre(1),
                                        ElementsAre(1, 2), ElementsAre(3, 4)));
  for (const BlobProto& blob : layer.blobs()) {
    EXPECT_FALSE(blob.has_channels());
    ASSERT_EQ(blob.shape().dim_size(), 1);
    EXPECT_EQ(blob.shape().dim(0), blob.data_size());
  }
  EXPECT_FALSE(ReorderBatchNormBlobs(&layer));
}

TEST(BatchNormDialect, GivesPlainStatisticsInOurOrderAFactorOfOne) {
  LayerParameter layer = Net(R"(
      blobs { shape { dim: 2 } data: [5, 6] } blobs { shape { dim: 2 } data: [7, 8] }
      blobs { shape { dim: 1 } data: [0] }
      blobs { shape { dim: 2 } data: [1, 2] } blobs { shape { dim: 2 } data: [3, 4] })")
                             .layer(0);
  EXPECT_TRUE(ReorderBatchNormBlobs(&layer));
  EXPECT_THAT(Blobs(layer)[2], ElementsAre(1));
  layer.mutable_blobs(2)->set_data(0, 1.5f);
  EXPECT_FALSE(ReorderBatchNormBlobs(&layer)) << "a file of ours";
}

TEST(BatchNormDialect, LeavesAFreshLayerAndOtherTypesAlone) {
  LayerParameter fresh = Net(R"(
      blobs { data: [0, 0] } blobs { data: [0, 0] } blobs { data: [0] }
      blobs { data: [1, 1] } blobs { data: [0, 0] })")
                             .layer(0);
  EXPECT_FALSE(ReorderBatchNormBlobs(&fresh));
  LayerParameter other = Net(kScaleFirst).layer(0);
  other.set_type("LSTM");
  EXPECT_FALSE(ReorderBatchNormBlobs(&other));
}

}  // namespace
}  // namespace carafe
