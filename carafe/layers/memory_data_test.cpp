#include "carafe/layers/memory_data.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "carafe/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Memory(int batch, const std::string& more = "") {
  return fmt::format(
      "type: \"MemoryData\" memory_data_param {{ batch_size: {} channels: 1 height: 1 width: 2 }} "
      "{}",
      batch, more);
}

template <typename T>
MemoryData<T>& Of(LayerTester<T>& layer) {
  return dynamic_cast<MemoryData<T>&>(layer.layer());
}

template <typename T>
std::vector<T> Counting(int n) {
  std::vector<T> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), T(0));
  return values;
}

Datum Picture(int height, int width, int first, int label) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(height);
  datum.set_width(width);
  for (int i = 0; i < height * width; ++i) {
    datum.mutable_data()->push_back(static_cast<char>(first + i));
  }
  datum.set_label(label);
  return datum;
}

template <typename T>
class MemoryDataOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MemoryDataOf, Types);

TYPED_TEST(MemoryDataOf, GivesBatchAfterBatchAndStartsAgain) {
  LayerTester<TypeParam> layer(Memory(2), Shapes{});
  EXPECT_EQ(layer.top(0).shape(), (Shape{2, 1, 1, 2}));
  EXPECT_EQ(layer.top(1).shape(), (Shape{2, 1, 1, 1}));
  std::vector<TypeParam> data = Counting<TypeParam>(8), labels = {10, 11, 12, 13};
  Of(layer).Reset(data.data(), labels.data(), 4);
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layer.top_values(1), ElementsAre(10, 11));
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(layer.top_values(1), ElementsAre(12, 13));
  data[0] = 77;  // the arrays are used where they are
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(77, 1, 2, 3));
  Of(layer).Reset(data.data() + 4, labels.data() + 2, 2);
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(4, 5, 6, 7));
}

TYPED_TEST(MemoryDataOf, RepeatsItsLastBatchesAfterARewind) {
  LayerTester<TypeParam> layer(Memory(1), Shapes{});
  std::vector<TypeParam> data = Counting<TypeParam>(6), labels = {10, 11, 12};
  Of(layer).Reset(data.data(), labels.data(), 3);
  for (int batch = 0; batch < 4; ++batch) layer.Forward();
  ASSERT_TRUE(layer.layer().RewindForward(layer.run().stream, 2));  // the last two: 12 and 10
  EXPECT_THAT(layer.Forward().top_values(1), ElementsAre(12));
  EXPECT_THAT(layer.Forward().top_values(1), ElementsAre(10));
}

TYPED_TEST(MemoryDataOf, TransformsPicturesThatAreAdded) {
  LayerTester<TypeParam> layer(Memory(2, "transform_param { scale: 0.5 mean_value: 1 }"), Shapes{});
  Of(layer).AddDatums(std::vector<Datum>{Picture(1, 2, 1, 5), Picture(1, 2, 3, 6),
                                         Picture(1, 2, 5, 7), Picture(1, 2, 7, 8)});
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(0, 0.5, 1, 1.5));
  EXPECT_THAT(layer.top_values(1), ElementsAre(5, 6));
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(2, 2.5, 3, 3.5));
  EXPECT_THAT(layer.top_values(1), ElementsAre(7, 8));
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(0, 0.5, 1, 1.5));
}

TEST(MemoryData, CropsAddedPictures) {
  LayerTester<float> layer(
      "type: \"MemoryData\" memory_data_param { batch_size: 1 channels: 1 height: 1 width: 1 } "
      "transform_param { crop_size: 1 }",
      Shapes{}, {.phase = TEST});
  Of(layer).AddDatums(std::vector<Datum>{Picture(3, 3, 0, 1)});
  EXPECT_THAT(layer.Forward().top_values(), ElementsAre(4));
}

TEST(MemoryData, TakesNewPicturesOnlyWhenTheOldOnesAreUsed) {
  LayerTester<float> layer(Memory(1), Shapes{});
  const std::vector<Datum> two = {Picture(1, 2, 1, 5), Picture(1, 2, 3, 6)};
  Of(layer).AddDatums(two);
  layer.Forward();
  EXPECT_THAT(ErrorText<ConfigError>([&] { Of(layer).AddDatums(two); }),
              HasSubstr("images are added before the images added last have all been used"));
  EXPECT_THAT(ErrorText<ConfigError>([&] { Of(layer).SetBatchSize(2); }),
              HasSubstr("the batch size is changed before"));
  layer.Forward();
  Of(layer).AddDatums(two);
  EXPECT_THAT(layer.Forward().top_values(1), ElementsAre(5));
}

TEST(MemoryData, MayChangeItsBatchSize) {
  LayerTester<float> layer(Memory(2), Shapes{});
  const std::vector<float> data = Counting<float>(8), labels = Counting<float>(4);
  Of(layer).Reset(data.data(), labels.data(), 4);
  layer.Forward();
  Of(layer).SetBatchSize(4);
  EXPECT_THAT(layer.Forward().top_values(1), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(layer.top(0).shape(), (Shape{4, 1, 1, 2}));
  Of(layer).SetBatchSize(3);
  EXPECT_THAT(ErrorText<ConfigError>([&] { layer.Forward(); }), HasSubstr("it was given no data"));
  Of(layer).Reset(data.data(), labels.data(), 3);
  EXPECT_THAT(layer.Forward().top_values(1), ElementsAre(0, 1, 2));
}

TEST(MemoryData, SaysWhatIsWrong) {
  for (const char* field : {"batch_size", "channels", "height", "width"}) {
    std::string settings;
    for (const char* other : {"batch_size", "channels", "height", "width"}) {
      settings += fmt::format("{}: {} ", other, other == field ? 0 : 1);
    }
    EXPECT_THAT(ErrorText<ConfigError>([&] {
                  LayerTester<float>("type: \"MemoryData\" memory_data_param { " + settings + "}",
                                     Shapes{});
                }),
                HasSubstr(fmt::format("{} is 0 or missing\n  fix: ", field)));
  }
  LayerTester<float> layer(Memory(2), Shapes{});
  EXPECT_THAT(ErrorText<ConfigError>([&] { layer.Forward(); }),
              HasSubstr("it was given no data\n  fix: call Reset or AddDatums"));
  const std::vector<float> values(8);
  for (const int64_t rows : {0, 3, -2}) {
    EXPECT_THAT(
        ErrorText<ConfigError>([&] { Of(layer).Reset(values.data(), values.data(), rows); }),
        HasSubstr(fmt::format("{} rows are no multiple of the batch size 2\n  fix: ", rows)));
  }
  EXPECT_THAT(ErrorText<ConfigError>([&] { Of(layer).AddDatums({}); }),
              HasSubstr("0 rows are no multiple of the batch size 2"));
  EXPECT_THAT(ErrorText<DataError>([&] {
                Of(layer).AddDatums(std::vector<Datum>{Picture(1, 2, 0, 0), Picture(2, 2, 0, 0)});
              }),
              HasSubstr("record 1: error: is 1 2 2 (4) after transform_param, but the layer says 1 "
                        "1 2 (2)\n  fix: "));
  EXPECT_THAT(ErrorText<ConfigError>([&] { Of(layer).SetBatchSize(0); }),
              HasSubstr("a batch size of 0 was asked for"));
}

}  // namespace
}  // namespace carafe
