// A new kind of data layer is one file: this one has its data set, its layer and nothing else, and
// is read ahead, sharded, shuffled, compared between ranks and replaced where its data are missing.
#include "carafe/layers/data_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/layers/batch_layer.h"
#include "tests/support/data_layer_runner.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Record i is the image (i, 10 i) of shape 1x1x2, its label is -i.
class Numbers final : public DataSet {
 public:
  explicit Numbers(const std::string& source) : name_(source) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return 6; }
  std::string Fingerprint() const override { return "6 numbers of " + name_; }
  std::string Describe(int64_t) const override { return "the number"; }
  std::unique_ptr<RecordReader> NewReader() const override { return std::make_unique<Reader>(); }

 private:
  class Reader final : public RecordReader {
   public:
    Reader() { image_.image().shape = {1, 1, 2}; }
    const Sample& Read(int64_t index) override {
      values_[0] = static_cast<float>(index);
      values_[1] = static_cast<float>(10 * index);
      image_.image().floats = values_;
      image_.set_label(static_cast<int>(-index));
      return image_.sample();
    }

   private:
    float values_[2] = {};
    LabelledImage image_;
  };
  const std::string name_;
};

template <typename T>
class NumbersData final : public BatchLayer<T> {
 public:
  explicit NumbersData(const LayerSpec& spec)
      : BatchLayer<T>(spec,
                      {.batch_size = spec.param().data_param().batch_size(),
                       .batch_path = "data_param.batch_size",
                       .shard = spec.phase() == TRAIN,
                       .shuffle = spec.param().data_param().shuffle()},
                      [spec]() -> DataPipeline {
                        return {
                            .data = std::make_unique<Numbers>(spec.param().data_param().source()),
                            .transform = NewTransform(spec.param().transform_param(), spec.phase(),
                                                      LocationOf(spec))};
                      }) {}
};

const RegisterLayer<NumbersData> kRegistered{{.type = "NumbersOfATest",
                                              .bottoms = {0, 0},
                                              .tops = {1, 2},
                                              .summary = "Numbers, for a test.",
                                              .is_data = true}};

std::string Text(const std::string& settings) {
  return "name: \"d\" type: \"NumbersOfATest\" top: \"data\" top: \"label\"\n"
         "data_param { source: \"s\" " +
         settings + " } transform_param { scale: 2 }";
}

TEST(DataLayer, ANewKindHasBatchesShardsAndTransforms) {
  for (int worker = 0; worker < 2; ++worker) {
    DataLayerRunner<float> layer(Text("batch_size: 2"));
    EXPECT_EQ(layer.layer().InferShapes({}), (Shapes{{2, 1, 1, 2}, {2}}));
    EXPECT_THAT(layer.Forward(1, {worker, 2, 0}).labels(), ElementsAre(-4 - worker, -worker));
  }
  DataLayerRunner<double> layer(Text("batch_size: 2"));
  EXPECT_THAT(layer.Forward(1).data(), ElementsAre(4, 40, 6, 60));
  DataLayerRunner<float> shuffled(Text("batch_size: 6 shuffle: true"));
  EXPECT_THAT(shuffled.Forward(0).labels(), UnorderedElementsAre(0, -1, -2, -3, -4, -5));
}

TEST(DataLayer, ANewKindIsComparedBetweenRanks) {
  DataLayerRunner<float> layer(Text("batch_size: 2"));
  const DataLayer* data = AsDataLayer(layer.layer());
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->data_set().Fingerprint(), "6 numbers of s");
}

TEST(FileSettings, NameFieldsThatExist) {
  for (const auto& [type, settings] : FileSettingsRegistry::Instance().entries()) {
    EXPECT_NE(LayerRegistry::Instance().Find(type), nullptr) << type;
    for (const std::string& path : settings.fields) {
      const size_t dot = path.find('.');
      const auto* message = LayerParameter::descriptor()->FindFieldByName(path.substr(0, dot));
      ASSERT_NE(message, nullptr) << path;
      EXPECT_NE(message->message_type()->FindFieldByName(path.substr(dot + 1)), nullptr) << path;
    }
  }
}

TEST(FileSettings, AreGivenByEveryLayerThatReadsAFile) {
  for (const char* type : {"Data", "ImageData", "HDF5Data", "WindowData", "ParallelData",
                           "ParallelInMemData", "MemoryData", "HDF5Output"}) {
    EXPECT_NE(FileSettingsRegistry::Instance().Find(type), nullptr) << type;
  }
}

}  // namespace
}  // namespace carafe
