#include "carafe/data/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const uint8_t kPixels[18] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18};

// The same pixels, channels of a pixel together.
const uint8_t kInterleaved[18] = {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16, 7, 17, 8, 18};
const Shape kShape = {2, 3, 3};

Sample SampleOf(const ArrayView& image) { return {.arrays = {image}, .box = {}, .file = {}}; }

// 2 channels of 3x3: 0..8 and 10..18.
Sample Image() { return SampleOf({.shape = kShape, .bytes = kPixels}); }

std::unique_ptr<const Transform> Make(const std::string& settings, Phase phase,
                                      std::vector<NewStep> first = {}) {
  LayerParameter layer;
  const Place place = ParseText("transform_param { " + settings + " }", "net.prototxt", &layer);
  return NewTransform(layer.transform_param(), phase, {"layer \"d\" (Data)", place},
                      std::move(first));
}

template <typename T = float>
std::vector<T> Transformed(const std::unique_ptr<const Transform>& transform, int64_t slot = 0,
                           int64_t pass = 0, const Sample& sample = Image()) {
  std::vector<T> out(static_cast<size_t>(transform->OutputShape(sample.arrays[0].shape).Count()));
  transform->Apply(sample, MakeRandomKey(5, "d", pass), slot, out.data());
  return out;
}

std::string WriteMean(const TestFolder& folder, bool with_shape) {
  BlobProto mean;
  if (with_shape) {
    for (const int dim : {2, 3, 3}) mean.mutable_shape()->add_dim(dim);
  } else {
    mean.set_num(1);
    mean.set_channels(2);
    mean.set_height(3);
    mean.set_width(3);
  }
  for (int i = 0; i < 18; ++i) mean.add_data(static_cast<float>(i) * 0.5f);
  WriteFileAtomically(folder / "mean", mean.SerializeAsString());
  return folder / "mean";
}

TEST(Transform, PassesValuesThroughByDefault) {
  EXPECT_THAT(Transformed(Make("", TRAIN)),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18));
}

TEST(Transform, SubtractsTheMeanBeforeScaling) {
  EXPECT_THAT(
      Transformed<double>(Make("mean_value: 1 mean_value: 12 scale: 0.5 crop_size: 1", TEST)),
      ElementsAre(1.5, 1));
  EXPECT_THAT(Transformed(Make("mean_value: 4 scale: 2 crop_size: 1", TEST)), ElementsAre(0, 20));
}

TEST(Transform, TakesTheCentreInTest) {
  EXPECT_THAT(Transformed(Make("crop_size: 2", TEST)), ElementsAre(0, 1, 3, 4, 10, 11, 13, 14));
}

TEST(Transform, TakesTheMeanImageAtThePlaceOfTheCrop) {
  const TestFolder folder;
  for (const bool with_shape : {false, true}) {
    const std::string path = WriteMean(folder, with_shape);
    EXPECT_THAT(Transformed(Make("crop_size: 1 mean_file: \"" + path + "\"", TEST)),
                ElementsAre(4 - 2, 14 - 6.5));
  }
}

TEST(Transform, CropsEverywhereInTrainAndMirrorsInBothPhases) {
  for (const Phase phase : {TRAIN, TEST}) {
    const auto transformer = Make("crop_size: 2 mirror: true", phase);
    std::set<std::vector<float>> seen;
    for (int64_t slot = 0; slot < 200; ++slot) seen.insert(Transformed(transformer, slot));
    EXPECT_EQ(seen.size(), phase == TRAIN ? 8u : 2u);  // 4 places, with and without mirroring
    EXPECT_TRUE(seen.count({1, 0, 4, 3, 11, 10, 14, 13}));
  }
}

TEST(Transform, DrawsDependOnPassAndSlotOnly) {
  const auto transformer = Make("crop_size: 1", TRAIN);
  std::vector<std::vector<float>> slots, passes;
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Transformed(transformer, i, 3), Transformed(transformer, i, 3));
    slots.push_back(Transformed(transformer, i, 0));
    passes.push_back(Transformed(transformer, 0, i));
  }
  EXPECT_NE(slots, passes);
  EXPECT_GT(std::set(slots.begin(), slots.end()).size(), 4u);
  EXPECT_GT(std::set(passes.begin(), passes.end()).size(), 4u);
}

TEST(Transform, ReadsFloatRecords) {
  const float values[2] = {0.25f, -1};
  const Sample image = SampleOf({.shape = {1, 1, 2}, .floats = values});
  EXPECT_THAT(Transformed<double>(Make("scale: 4", TRAIN), 0, 0, image), ElementsAre(1, -4));
}

TEST(Transform, TreatsInterleavedPixelsLikePlanes) {
  const TestFolder folder;
  const Sample image = SampleOf({.shape = kShape, .bytes = kInterleaved, .interleaved = true});
  const std::string mean = "mean_file: \"" + WriteMean(folder, true) + "\"";
  for (const std::string& settings :
       {std::string("scale: 0.5"), std::string("mean_value: 1 mean_value: 12 mirror: true"),
        "crop_size: 2 mirror: true scale: 3 " + mean}) {
    const auto transform = Make(settings, TRAIN);
    for (int64_t slot = 0; slot < 20; ++slot) {
      EXPECT_EQ(Transformed(transform, slot, 0, image), Transformed(transform, slot)) << settings;
    }
  }
}

TEST(Transform, ResizesBeforeAllOtherSteps) {
  const uint8_t pixels[2] = {0, 100};
  const Sample image = SampleOf({.shape = {1, 1, 2}, .bytes = pixels, .interleaved = true});
  std::vector<NewStep> first;
  first.push_back(Resize(2, 4));
  const auto transform = Make("mean_value: 5 crop_size: 2", TEST, std::move(first));
  EXPECT_EQ(transform->OutputShape(image.arrays[0].shape), (Shape{1, 2, 2}));
  EXPECT_THAT(Transformed(transform, 0, 0, image), ElementsAre(20, 70, 20, 70));
}

// A step of a test: every second column.
class EverySecondColumn final : public TransformStep {
 public:
  Shape OutputShape(const Shape& image) const override {
    return {image[0], image[1], (image[2] + 1) / 2};
  }
  void Apply(const SlotDraws&, ImagePlan* plan) const override {
    plan->column_stride *= 2;
    plan->frame_width = plan->width = (plan->width + 1) / 2;
  }
};

TEST(Transform, TakesANewStep) {
  std::vector<NewStep> first;
  first.push_back(std::make_unique<EverySecondColumn>());
  EXPECT_THAT(Transformed(Make("scale: 2", TEST, std::move(first))),
              ElementsAre(0, 4, 6, 10, 12, 16, 20, 24, 26, 30, 32, 36));
}

TEST(Transform, RefusesSettingsThatContradictEachOther) {
  EXPECT_EQ(ErrorText<ConfigError>([] { Make("mean_file: \"m\" mean_value: 3", TRAIN); }),
            "net.prototxt:1:34: error: layer \"d\" (Data): mean_file and mean_value are both "
            "given\n  fix: keep one of the two");
  EXPECT_THAT(ErrorText<ConfigError>([] { Make("force_color: true force_gray: true", TRAIN); }),
              HasSubstr("force_color and force_gray are both true"));
}

TEST(Transform, RefusesSettingsThatDoNotFitThePicture) {
  const auto text = [](const std::string& settings) {
    return ErrorText<ConfigError>([&] { Make(settings, TRAIN)->OutputShape(kShape); });
  };
  EXPECT_EQ(text("crop_size: 4"),
            "net.prototxt:1:19: error: layer \"d\" (Data): crop_size is 4 but the images are 3x3 "
            "(height x width)\n  fix: use a smaller crop_size or larger images");
  EXPECT_EQ(text("mean_value: 1 mean_value: 2 mean_value: 3"),
            "net.prototxt:1:19: error: layer \"d\" (Data): there are 3 mean values but the images "
            "have 2 channels\n  fix: give one mean_value, or one for each channel");
  const TestFolder folder;
  BlobProto mean;
  for (const int dim : {1, 2, 2, 2}) mean.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 8; ++i) mean.add_data(0);
  WriteFileAtomically(folder / "mean", mean.SerializeAsString());
  EXPECT_THAT(text("crop_size: 2 mean_file: \"" + (folder / "mean") + "\""),
              HasSubstr("mean is 2x2x2 but the images are 2x3x3 (before cropping)\n  fix: use the "
                        "mean file of this data set"));
}

TEST(Transform, RefusesABrokenMeanFile) {
  const TestFolder folder;
  const auto text = [&] {
    return ErrorText<DataError>([&] { Make("mean_file: \"" + (folder / "mean") + "\"", TRAIN); });
  };
  EXPECT_THAT(text(), HasSubstr("mean: error: the file cannot be read: No such file"));
  WriteFileAtomically(folder / "mean", "\x0a\xff");
  EXPECT_THAT(text(), HasSubstr("mean: error: not a mean file: the bytes are no BlobProto"));
  WriteFileAtomically(folder / "mean", "");
  EXPECT_THAT(text(), HasSubstr("not a mean file: it says 0x0x0x0 but holds 0 values"));
}

}  // namespace
}  // namespace carafe
