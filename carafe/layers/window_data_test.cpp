// The WindowData layer over one drawn picture.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "carafe/data/mean_file.h"
#include "carafe/data/windows.h"
#include "tests/support/data_layer_runner.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A picture of 4x6 with value 10 y + x in each channel, and windows `lines`.
void WriteSet(const TestFolder& folder, int windows, const std::string& lines) {
  Picture picture{4, 6, 3, {}};
  for (int i = 0; i < 24; ++i) {
    picture.pixels.insert(picture.pixels.end(), 3, static_cast<uint8_t>(10 * (i / 6) + i % 6));
  }
  WritePng(folder / "a.png", picture);
  WriteFileAtomically(folder / "windows.txt",
                      fmt::format("# 0\n{}\n3\n4\n6\n{}\n{}", folder / "a.png", windows, lines));
}

std::string Text(const TestFolder& folder, const std::string& settings,
                 const std::string& transform) {
  return fmt::format(
      "name: \"d\" type: \"WindowData\" top: \"data\" top: \"label\"\n"
      "window_data_param {{ source: \"{}\" {} }}\ntransform_param {{ {} }}",
      folder / "windows.txt", settings, transform);
}

template <typename T>
class WindowDataOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WindowDataOf, Types);

TYPED_TEST(WindowDataOf, GivesBackgroundFirstThenForeground) {
  const TestFolder folder;
  WriteSet(folder, 2, "3 0.9 1 1 2 2\n5 0.1 4 0 5 1\n");
  DataLayerRunner<TypeParam> layer(
      Text(folder, "batch_size: 4 fg_fraction: 0.25 scale: 0.5", "crop_size: 2"));
  EXPECT_EQ(layer.layer().InferShapes({}), (Shapes{{4, 3, 2, 2}, {4}}));
  EXPECT_THAT(layer.Forward(0).labels(), ElementsAre(0, 0, 0, 3));
  const std::vector<TypeParam> data = layer.data();
  EXPECT_THAT((std::vector<TypeParam>(data.begin(), data.begin() + 4)),
              ElementsAre(2, 2.5, 7, 7.5));
  EXPECT_THAT((std::vector<TypeParam>(data.end() - 4, data.end())), ElementsAre(5.5, 6, 10.5, 11));
}

TEST(WindowData, PadsWhereContextLeavesThePicture) {
  const Picture picture = DrawnPicture(4, 4, 1, 1);
  // The window of 2x2 at the corner has its centre at 1; 10 / 6 times its half is 1.67, so it grows
  // to -1 .. 3: 5 pixels become 10, and the one outside the picture becomes 2.
  const WindowCut cut = CutWindow(picture, {.x1 = 0, .y1 = 0, .x2 = 1, .y2 = 1},
                                  {.crop = 10, .context_pad = 2}, false, {.file = "f"});
  EXPECT_EQ(cut.top, 2);
  EXPECT_EQ(cut.left, 2);
  EXPECT_EQ(cut.picture.height, 8);
  EXPECT_EQ(cut.picture.width, 8);
  const WindowCut mirrored = CutWindow(picture, {.x1 = 0, .y1 = 0, .x2 = 1, .y2 = 1},
                                       {.crop = 10, .context_pad = 2}, true, {.file = "f"});
  EXPECT_EQ(mirrored.left, 0);  // what was missing on the left is missing on the right
  EXPECT_EQ(mirrored.picture.pixels[0],
            cut.picture.pixels[static_cast<size_t>(cut.picture.width) - 1]);
}

TEST(WindowData, SquareKeepsProportions) {
  const Picture picture = DrawnPicture(8, 8, 1);
  // 2 wide, 4 high: widened to 4 about its centre (4, 4), which rounds to 2..6.
  const WindowCut cut = CutWindow(picture, {.x1 = 3, .y1 = 2, .x2 = 4, .y2 = 5},
                                  {.crop = 5, .square = true}, false, {.file = "f"});
  EXPECT_EQ(cut.top, 0);
  EXPECT_EQ(cut.left, 0);
  ASSERT_EQ(cut.picture.width, 5);
  EXPECT_THAT((std::vector<uint8_t>(cut.picture.pixels.begin(), cut.picture.pixels.begin() + 5)),
              ElementsAre(18, 19, 20, 21, 22));
}

TEST(WindowData, SubtractsTheMiddleOfTheMeanImage) {
  const TestFolder folder;
  WriteSet(folder, 2, "3 0.9 1 1 2 2\n5 0.1 4 0 5 1\n");
  MeanImage mean{3, 4, 4, std::vector<float>(48, 1)};
  mean.values[5] = 3;  // channel 0, row 1, column 1: the first of the middle
  WriteMeanFile(mean, folder / "mean");
  DataLayerRunner<float> layer(
      Text(folder, "batch_size: 1 fg_fraction: 1 cache_images: true",
           fmt::format("crop_size: 2 mean_file: \"{}\"", folder / "mean")));
  const std::vector<float> data = layer.Forward(0).data();
  EXPECT_THAT((std::vector<float>(data.begin(), data.begin() + 4)), ElementsAre(8, 11, 20, 21));
}

TEST(WindowData, DrawsTheSameForAnyNumberOfWorkers) {
  const TestFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += fmt::format("{} {} {} {} {} {}\n", i + 1, i % 2 == 0 ? 0.9 : 0.1, i % 5, i % 3,
                         i % 5 + 1, i % 3 + 1);
  }
  WriteSet(folder, 20, lines);
  const auto settings = [](int batch) {
    return fmt::format("batch_size: {} fg_fraction: 0.5", batch);
  };
  DataLayerRunner<float> one(Text(folder, settings(8), "crop_size: 3 mirror: true"));
  const std::vector<float> labels = one.Forward(5).labels(), data = one.data();
  EXPECT_GT(std::set<float>(labels.begin() + 4, labels.end()).size(), 1u);
  for (int worker = 0; worker < 2; ++worker) {
    DataLayerRunner<float> part(Text(folder, settings(4), "crop_size: 3 mirror: true"));
    const std::vector<float> part_labels = part.Forward(5, {worker, 2, 0}).labels();
    const std::vector<float> part_data = part.data();
    for (size_t row = 0; row < 4; ++row) {
      const size_t slot = row * 2 + static_cast<size_t>(worker);
      EXPECT_EQ(part_labels[row], labels[slot]);
      for (size_t i = 0; i < 27; ++i) EXPECT_EQ(part_data[row * 27 + i], data[slot * 27 + i]);
    }
  }
}

TEST(WindowData, RefusesFilesThatCannotBeRight) {
  const TestFolder folder;
  const auto text = [&](int windows, const std::string& lines) {
    WriteSet(folder, windows, lines);
    return ErrorText<DataError>([&] {
      DataLayerRunner<float>(Text(folder, "batch_size: 2 fg_fraction: 0.5", "crop_size: 2"))
          .Forward(0);
    });
  };
  EXPECT_THAT(text(2, "1 0.9 0 0 1 1\n"), HasSubstr("record 0: error: has no class"));
  EXPECT_THAT(text(1, "1 0.9 0 0 x 1\n"), HasSubstr("has no corner where one should be"));
  EXPECT_THAT(text(1, "1 0.9 3 0 1 1\n"), HasSubstr("has a window from (3, 0) to (1, 1)"));
  EXPECT_THAT(text(1, "0 0.9 0 0 1 1\n"), HasSubstr("foreground with class 0"));
  EXPECT_THAT(text(1, "1 0.9 0 0 1 1\n"), HasSubstr("there is no window of the background"));
  EXPECT_THAT(text(2, "1 0.9 0 0 1 1\n1 0.1 0 0 9 1\n"),
              HasSubstr("the window (0, 0) to (9, 1) lies outside the image of 4x6"));
  EXPECT_THAT(text(1, "1 0.9 0 0 1 1\nrubbish"),
              HasSubstr("record 1: error: begins with \"rubbish\""));
}

TEST(WindowData, RefusesSettingsThatCannotBeRight) {
  const TestFolder folder;
  const auto text = [&](const std::string& settings, const std::string& transform) {
    return ErrorText<ConfigError>(
        [&] { DataLayerRunner<float>{Text(folder, settings, transform)}; });
  };
  EXPECT_THAT(text("batch_size: 1", ""), HasSubstr("crop_size is 0"));
  EXPECT_THAT(text("batch_size: 1 context_pad: 4", "crop_size: 8"), HasSubstr("context_pad is 4"));
  EXPECT_THAT(text("batch_size: 1 crop_mode: \"round\"", "crop_size: 8"),
              HasSubstr("crop_mode \"round\" is unknown\n  fix: use \"warp\" or \"square\""));
  EXPECT_THAT(text("", "crop_size: 8"), HasSubstr("batch_size is 0 or missing"));
}

}  // namespace
}  // namespace carafe
