// The ImageData layer over pictures that the tests draw.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/data_layer_runner.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Text(const TestFolder& folder, const std::string& settings,
                 const std::string& transform = "") {
  return fmt::format(
      "name: \"d\" type: \"ImageData\" top: \"data\" top: \"label\"\n"
      "image_data_param {{ source: \"{}\" root_folder: \"{}\" {} }}\ntransform_param {{ {} }}",
      folder / "list.txt", folder / "", settings, transform);
}

// `count` pictures of 1x2 B G R pixels from 10 i on, with the label i; names hold a blank.
void WriteSet(const TestFolder& folder, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("picture {}.png", i);
    WritePng(folder / name, DrawnPicture(1, 2, 3, 10 * i));
    list += fmt::format("{} {}\n", name, i);
  }
  WriteFileAtomically(folder / "list.txt", list);
}

template <typename T>
class ImageDataOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ImageDataOf, Types);

TYPED_TEST(ImageDataOf, GivesPicturesAsPlanesInTheOrderOfTheList) {
  const TestFolder folder;
  WriteSet(folder, 3);
  DataLayerRunner<TypeParam> layer(Text(folder, "batch_size: 2", "scale: 0.5"));
  EXPECT_EQ(layer.layer().InferShapes({}), (Shapes{{2, 3, 1, 2}, {2}}));
  layer.Forward(0);
  EXPECT_THAT(layer.data(), ElementsAre(0, 1.5, 0.5, 2, 1, 2.5, 5, 6.5, 5.5, 7, 6, 7.5));
  EXPECT_THAT(layer.labels(), ElementsAre(0, 1));
  EXPECT_THAT(layer.Forward(1).labels(), ElementsAre(2, 0));
}

TEST(ImageData, ReadsGrayAndResizes) {
  const TestFolder folder;
  WritePng(folder / "a.png", Picture{1, 2, 3, {0, 0, 0, 100, 100, 100}});
  WriteFileAtomically(folder / "list.txt", "a.png 1\r\n\n  \n");
  DataLayerRunner<float> layer(Text(folder, "is_color: false new_height: 2 new_width: 4"));
  EXPECT_THAT(layer.Forward(0).data(), ElementsAre(0, 25, 75, 100, 0, 25, 75, 100));
  EXPECT_THAT(layer.labels(), ElementsAre(1));
}

TEST(ImageData, DealsOverWorkersInTrainAndNotInTest) {
  const TestFolder folder;
  WriteSet(folder, 10);
  for (int worker = 0; worker < 2; ++worker) {
    DataLayerRunner<float> layer(Text(folder, "batch_size: 2"));
    EXPECT_THAT(layer.Forward(1, {worker, 2, 0}).labels(), ElementsAre(4 + worker, 6 + worker));
  }
  DataLayerRunner<float> layer(Text(folder, "batch_size: 2"), TEST);
  EXPECT_THAT(layer.Forward(1, {1, 2, 0}).labels(), ElementsAre(2, 3));
}

TEST(ImageData, ShufflesEachEpochAnewTheSameForAnyNumberOfWorkers) {
  const TestFolder folder;
  WriteSet(folder, 12);
  DataLayerRunner<float> one(Text(folder, "batch_size: 12 shuffle: true"));
  const std::vector<float> first = one.Forward(0).labels(), second = one.Forward(1).labels();
  EXPECT_NE(first, second);
  std::vector<float> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(sorted[i], static_cast<float>(i));
  for (int worker = 0; worker < 3; ++worker) {
    DataLayerRunner<float> part(Text(folder, "batch_size: 4 shuffle: true"));
    const std::vector<float> labels = part.Forward(1, {worker, 3, 0}).labels();
    for (size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(labels[row], second[row * 3 + static_cast<size_t>(worker)]);
    }
  }
}

TEST(ImageData, SkipsARandomNumberOfPicturesAtTheStart) {
  const TestFolder folder;
  WriteSet(folder, 9);
  std::vector<float> starts;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    DataLayerRunner<float> layer(Text(folder, "batch_size: 2 rand_skip: 4"));
    const std::vector<float> labels = layer.Forward(0, {}, seed).labels();
    EXPECT_LT(labels[0], 4);
    EXPECT_EQ(labels[1], labels[0] + 1);
    starts.push_back(labels[0]);
  }
  std::sort(starts.begin(), starts.end());
  EXPECT_NE(starts.front(), starts.back());
}

TEST(ImageData, TakesTheSizeOfTheFirstPictureOfABatch) {
  const TestFolder folder;
  WritePng(folder / "a.png", DrawnPicture(2, 3, 3));
  WritePng(folder / "b.png", DrawnPicture(4, 5, 3));
  WriteFileAtomically(folder / "list.txt", "a.png 0\na.png 1\nb.png 2\nb.png 3\n");
  DataLayerRunner<float> layer(Text(folder, "batch_size: 2"));
  EXPECT_EQ(layer.Forward(0).shape(), (Shape{2, 3, 2, 3}));
  EXPECT_EQ(layer.Forward(1).shape(), (Shape{2, 3, 4, 5}));
  DataLayerRunner<float> mixed(Text(folder, "batch_size: 3"));
  EXPECT_THAT(ErrorText<DataError>([&] { mixed.Forward(0); }),
              HasSubstr("list.txt: record 2: error: (line 3, \"b.png 2\") is 3x4x5 but the first "
                        "record of its batch is 3x2x3"));
  DataLayerRunner<float> cropped(Text(folder, "batch_size: 3", "crop_size: 2"));
  EXPECT_EQ(cropped.Forward(0).shape(), (Shape{3, 3, 2, 2}));
}

TEST(ImageData, NamesThePictureThatCannotBeRead) {
  const TestFolder folder;
  WriteSet(folder, 3);
  WriteFileAtomically(folder / "picture 1.png", "nonsense");
  DataLayerRunner<float> layer(Text(folder, ""));
  layer.Forward(0);
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(1); }),
              StartsWith((folder / "picture 1.png") + ": error: not a picture that can be read"));
  EXPECT_THAT(layer.Forward(2).labels(), ElementsAre(2));
  std::filesystem::remove(folder / "picture 0.png");
  DataLayerRunner<float> missing(Text(folder, ""));
  EXPECT_THAT(ErrorText<DataError>([&] { missing.layer().InferShapes({}); }),
              HasSubstr("picture 0.png"));
}

TEST(ImageData, RefusesListsAndSettingsThatCannotBeRight) {
  const TestFolder folder;
  const auto with_list = [&](const std::string& list) {
    WriteFileAtomically(folder / "list.txt", list);
    return ErrorText<DataError>(
        [&] { DataLayerRunner<float>(Text(folder, "")).layer().InferShapes({}); });
  };
  EXPECT_THAT(with_list("a.png\n"), HasSubstr("record 0: error: (line 1, \"a.png\") has no label"));
  EXPECT_THAT(with_list("\na.png 0.5"),
              HasSubstr("(line 2, \"a.png 0.5\") has the label \"0.5\", which is no whole number"));
  EXPECT_THAT(with_list("\n\n"), HasSubstr("the list is empty"));
  const auto with = [&](const std::string& settings) {
    return ErrorText<ConfigError>([&] { DataLayerRunner<float>{Text(folder, settings)}; });
  };
  EXPECT_THAT(with("new_height: 3"), HasSubstr("new_height is 3 and new_width is 0\n  fix: give"));
  EXPECT_THAT(with("batch_size: 0"), HasSubstr("batch_size is 0 or missing"));
  EXPECT_THAT(with("new_height: 100000 new_width: 100000"), HasSubstr("are too large"));
}

}  // namespace
}  // namespace carafe
