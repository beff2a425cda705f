#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "carafe/data/box_sampling.h"
#include "carafe/data/database_writer.h"
#include "carafe/data/distortion.h"
#include "carafe/data/resampling.h"
#include "carafe/proto/fork_messages.h"
#include "tests/support/data_layer_runner.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class AnnotatedData : public ::testing::Test {
 protected:
  // Gray images of 2 x 4: pixels 10 i .. 10 i + 7. Image 0 has two boxes, image 1 none, image 2
  // one.
  AnnotatedData() {
    auto writer = NewDatabaseWriter("lmdb", folder_ / "boxes");
    for (int i = 0; i < 3; ++i) {
      AnnotatedDatum datum;
      Datum* image = datum.mutable_datum();
      image->set_channels(1);
      image->set_height(2);
      image->set_width(4);
      for (int p = 0; p < 8; ++p) image->mutable_data()->push_back(static_cast<char>(10 * i + p));
      datum.set_type(AnnotatedDatum::BBOX);
      if (i == 0) {
        Add(1, 0, {0, 0, 0.5F, 1}, false, &datum);
        Add(2, 1, {0.25F, 0.5F, 1, 1}, true, &datum);
      }
      if (i == 2) Add(3, 0, {0.5F, 0, 0.75F, 0.5F}, false, &datum);
      writer->Put(std::to_string(i), datum.SerializeAsString());
    }
    writer->Put("3", "not a record");
    writer->Finish();
  }
  static void Add(int label, int instance, const Corners& corners, bool difficult,
                  AnnotatedDatum* datum) {
    AnnotationGroup* group = datum->add_annotation_group();
    group->set_group_label(label);
    Annotation* one = group->add_annotation();
    one->set_instance_id(instance);
    one->mutable_bbox()->set_xmin(corners.x1);
    one->mutable_bbox()->set_ymin(corners.y1);
    one->mutable_bbox()->set_xmax(corners.x2);
    one->mutable_bbox()->set_ymax(corners.y2);
    one->mutable_bbox()->set_difficult(difficult);
  }
  std::string Text(int batch, const std::string& transform, const std::string& more = "") {
    return "name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
           (folder_ / "boxes") + "' backend: LMDB batch_size: " + std::to_string(batch) +
           " } transform_param { " + transform + " } " + more;
  }
  TestFolder folder_;
};

TEST_F(AnnotatedData, GivesImagesAndAllBoxesOfTheBatch) {
  DataLayerRunner<float> layer(Text(3, "mean_value: 1 scale: 2"));
  layer.Forward(0);
  EXPECT_EQ(layer.shape(), (Shape{3, 1, 2, 4}));
  EXPECT_EQ(layer.data()[9], 2 * (11 - 1));
  EXPECT_THAT(layer.labels(),
              Pointwise(FloatEq(), std::vector<float>{0, 1, 0, 0,     0,    0.5F,  1,    0,  //
                                                      0, 2, 1, 0.25F, 0.5F, 1,     1,    1,  //
                                                      2, 3, 0, 0.5F,  0,    0.75F, 0.5F, 0}));
}

TEST_F(AnnotatedData, DealsRecordsOverWorkersAndGivesARowOfNoneWithoutBoxes) {
  DataLayerRunner<float> layer(Text(1, ""));
  layer.Forward(0, {1, 2, 0});  // record 1
  EXPECT_EQ(layer.data()[0], 10);
  EXPECT_THAT(layer.labels(), Each(-1));
}

TEST_F(AnnotatedData, ResizesToAFrameWithItsBoxes) {
  DataLayerRunner<float> layer(
      Text(1,
           "resize_param { height: 4 width: 4 resize_mode: FIT_LARGE_SIZE_AND_PAD pad_value: 9 "
           "interp_mode: NEAREST }"),
      TEST);
  layer.Forward(0);
  EXPECT_THAT(layer.data(), ElementsAre(9, 9, 9, 9, 0, 1, 2, 3, 4, 5, 6, 7, 9, 9, 9, 9));
  const std::vector<float> labels = layer.labels();
  EXPECT_THAT(std::vector<float>(labels.begin() + 3, labels.begin() + 7),
              Pointwise(FloatEq(), std::vector<float>{0, 0.25F, 0.5F, 0.75F}));
}

TEST_F(AnnotatedData, CropsBoxesWithTheImageAndLeavesOutThoseOutside) {
  // The middle columns: the first box ends there, the second has its middle there.
  DataLayerRunner<float> layer(Text(1, "crop_size: 2 emit_constraint { emit_type: CENTER }"), TEST);
  layer.Forward(0);
  EXPECT_THAT(layer.data(), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(layer.labels(), Pointwise(FloatEq(), std::vector<float>{0, 1, 0, 0, 0, 0.5F, 1, 0,  //
                                                                      0, 2, 1, 0, 0.5F, 1, 1, 1}));
}

TEST_F(AnnotatedData, MirrorsBoxesWithTheImage) {
  DataLayerRunner<float> layer(Text(1, "mirror: true"));
  bool both[2] = {false, false};
  for (int64_t pass = 0; pass < 32; pass += 4) {  // record 0 each time
    layer.Forward(pass);
    const bool mirrored = layer.data()[0] == 3;
    both[mirrored ? 1 : 0] = true;
    EXPECT_EQ(layer.labels()[3], mirrored ? 0.5F : 0.0F);
    EXPECT_EQ(layer.labels()[5], mirrored ? 1.0F : 0.5F);
  }
  EXPECT_TRUE(both[0] && both[1]);
}

// Whatever is drawn, the white pixels lie where the box says.
TEST_F(AnnotatedData, ExpandsAndSamplesImagesTogetherWithTheirBoxes) {
  auto writer = NewDatabaseWriter("lmdb", folder_ / "square");
  AnnotatedDatum datum;
  Datum* image = datum.mutable_datum();
  image->set_channels(1);
  image->set_height(40);
  image->set_width(40);
  for (int i = 0; i < 1600; ++i) {
    const int y = i / 40, x = i % 40;
    image->mutable_data()->push_back(y >= 10 && y < 20 && x >= 20 && x < 30 ? '\xff' : '\0');
  }
  Add(1, 0, {0.5F, 0.25F, 0.75F, 0.5F}, false, &datum);
  writer->Put("0", datum.SerializeAsString());
  writer->Finish();
  DataLayerRunner<float> layer(
      "name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
      (folder_ / "square") +
      "' backend: LMDB batch_size: 1 } transform_param { mirror: true expand_param { prob: 0.5 "
      "max_expand_ratio: 2 } resize_param { height: 80 width: 80 interp_mode: LINEAR } "
      "emit_constraint { emit_type: CENTER } } annotated_data_param { batch_sampler { sampler { "
      "min_scale: 0.5 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } sample_constraint { "
      "min_object_coverage: 1 } max_sample: 1 max_trials: 50 } }");
  std::set<float> places;
  for (int64_t pass = 0; pass < 20; ++pass) {
    layer.Forward(pass);
    const std::vector<float> pixels = layer.data(), box = layer.labels();
    ASSERT_EQ(box.size(), 8u);
    places.insert(box[3]);
    float left = 80, right = 0, top = 80, bottom = 0;
    for (int i = 0; i < 6400; ++i) {
      if (pixels[static_cast<size_t>(i)] < 128) continue;
      const auto x = static_cast<float>(i % 80), y = static_cast<float>(i / 80);
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
    }
    EXPECT_NEAR(left, box[3] * 80, 6);
    EXPECT_NEAR(top, box[4] * 80, 6);
    EXPECT_NEAR(right, box[5] * 80, 6);
    EXPECT_NEAR(bottom, box[6] * 80, 6);
  }
  EXPECT_GT(places.size(), 10u);
}

TEST_F(AnnotatedData, GivesLabelsAsDarknetHasThem) {
  DataLayerRunner<float> layer(
      Text(1, "", "annotated_data_param { yolo_data_type: 1 yolo_data_jitter: 0 }"), TEST);
  layer.Forward(0);
  const std::vector<float> labels = layer.labels();
  ASSERT_EQ(labels.size(), 1500u);
  // The second box is difficult.
  EXPECT_THAT(std::vector<float>(labels.begin(), labels.begin() + 6),
              Pointwise(FloatEq(), std::vector<float>{0, 0.25F, 0.5F, 0.5F, 1, 0}));
}

TEST_F(AnnotatedData, RefusesWrongSettingsAndRecords) {
  const auto error = [&](const std::string& transform, const std::string& more = "") {
    return ErrorText<ConfigError>([&] { DataLayerRunner<float>(Text(1, transform, more)); });
  };
  EXPECT_THAT(error("resize_param { height: 4 }"), HasSubstr("resize_param is to 4x0"));
  EXPECT_THAT(error("resize_param { height: 4 width: 4 prob: 0.5 }"), HasSubstr("add up to 0.5"));
  EXPECT_THAT(error("expand_param { max_expand_ratio: 0.5 }"),
              HasSubstr("max_expand_ratio is 0.5"));
  EXPECT_THAT(error("", "annotated_data_param { batch_sampler { sampler { min_scale: 0 } } }"),
              HasSubstr("scales from 0 to 1"));
  DataLayerRunner<float> layer(Text(4, ""));
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(0); }),
              HasSubstr("is not an AnnotatedDatum message"));
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                DataLayerRunner<float>(
                    "name: 'd' type: 'Data' top: 'data' data_param { source: 's' batch_size: 1 } "
                    "transform_param { distort_param { hue_prob: 1 } }");
              }),
              HasSubstr("are those of SSD's AnnotatedData"));
}

TEST(BoxSampling, CoverageIsThePartInside) {
  EXPECT_FLOAT_EQ(Coverage({0, 0, 1, 1}, {0.5F, 0, 2, 2}), 0.5F);
  EXPECT_FLOAT_EQ(Coverage({0, 0, 1, 1}, {2, 2, 3, 3}), 0);
}

TEST(Distortion, TurnsHuesForthAndBack) {
  for (const std::vector<uint8_t>& bgr :
       {std::vector<uint8_t>{0, 0, 255}, {0, 255, 0}, {255, 0, 0}, {10, 200, 90}, {77, 77, 77}}) {
    uint8_t back[3];
    FromHue(ToHue(bgr.data()), back);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(back[c], bgr[c], 3);
  }
  EXPECT_EQ(ToHue(std::vector<uint8_t>{0, 255, 0}.data()).hue, 60);  // green, half of 120 degrees
}

TEST(Distortion, ChangesBrightnessAndContrastWithinLimits) {
  DistortionParameter param;
  param.set_brightness_prob(1);
  param.set_brightness_delta(20);
  RandomSequence draws(5);
  Picture picture{1, 2, 1, {100, 250}};
  Distort(param, &draws, &picture);
  EXPECT_NE(picture.pixels[0], 100);
  EXPECT_NEAR(picture.pixels[0], 100, 20);
  DistortionParameter twice;
  twice.set_contrast_prob(1);
  twice.set_contrast_lower(2);
  twice.set_contrast_upper(2);
  Picture other{1, 2, 1, {100, 250}};
  Distort(twice, &draws, &other);
  EXPECT_THAT(other.pixels, ElementsAre(200, 255));
}

TEST(Resample, KeepsWhatIsEvenAndAveragesAreas) {
  for (const auto mode : {ResizeParameter::AREA, ResizeParameter::NEAREST, ResizeParameter::CUBIC,
                          ResizeParameter::LANCZOS4, ResizeParameter::LINEAR}) {
    const Picture even{4, 4, 1, std::vector<uint8_t>(16, 37)};
    EXPECT_THAT(Resample(even, 3, 7, mode).pixels, Each(37));
    EXPECT_EQ(Resample(DrawnPicture(4, 4, 1), 4, 4, mode).pixels, DrawnPicture(4, 4, 1).pixels);
  }
  const Picture four{2, 4, 1, {0, 10, 20, 30, 10, 20, 30, 40}};
  EXPECT_THAT(Resample(four, 1, 2, ResizeParameter::AREA).pixels, ElementsAre(10, 30));
  EXPECT_THAT(Resample(four, 1, 2, ResizeParameter::NEAREST).pixels, ElementsAre(0, 20));
}

}  // namespace
}  // namespace carafe
