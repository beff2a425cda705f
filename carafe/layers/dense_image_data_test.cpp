#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DenseImageData : public ::testing::Test {
 protected:
  DenseImageData() {
    // Binary PGM files: an image of 2 x 4, and its labels.
    Write("image.pgm", 4, 2, {10, 20, 30, 40, 50, 60, 70, 80});
    Write("labels.pgm", 4, 2, {0, 1, 2, 3, 4, 5, 6, 7});
    Write("small.pgm", 2, 2, {1, 2, 3, 4});
    List("image.pgm labels.pgm\n");
  }
  void Write(const std::string& name, int width, int height, const std::vector<int>& pixels) {
    std::ofstream file(folder_ / name, std::ios::binary);
    file << "P5\n" << width << " " << height << "\n255\n";
    for (const int pixel : pixels) file.put(static_cast<char>(pixel));
  }
  void List(const std::string& text) { std::ofstream(folder_ / "list.txt") << text; }
  std::string Text(const std::string& settings, const std::string& more = "") {
    return "type: 'DenseImageData' dense_image_data_param { source: '" + (folder_ / "list.txt") +
           "' root_folder: '" + (folder_ / "") + "' is_color: false " + settings + " } " + more;
  }
  TestFolder folder_;
};

TEST_F(DenseImageData, ReadsAnImageAndALabelForEachPixel) {
  LayerTester<float> layer(Text("", "transform_param { scale: 0.1 }"), Shapes{});
  layer.Forward();
  EXPECT_EQ(layer.top(0).shape(), (Shape{1, 1, 2, 4}));
  EXPECT_EQ(layer.top(1).shape(), (Shape{1, 1, 2, 4}));
  EXPECT_THAT(layer.top_values(0), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(layer.top_values(1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(DenseImageData, MixesNoLabelsWhereSizesChange) {
  LayerTester<float> half(Text("label_divide_factor: 2"), Shapes{});
  half.Forward();
  EXPECT_EQ(half.top(1).shape(), (Shape{1, 1, 1, 2}));
  EXPECT_THAT(half.top_values(1), ElementsAre(0, 2));
  LayerTester<float> twice(Text("new_height: 2 new_width: 8 batch_size: 2"), Shapes{});
  twice.Forward();
  EXPECT_EQ(twice.top(0).shape(), (Shape{2, 1, 2, 8}));
  const std::vector<float> labels = twice.top_values(1);
  EXPECT_THAT(std::vector<float>(labels.begin(), labels.begin() + 8),
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST_F(DenseImageData, RefusesPairsThatAreNone) {
  List("image.pgm\n");
  EXPECT_THAT(ErrorText<DataError>([&] { LayerTester<float>(Text(""), Shapes{}); }),
              HasSubstr("line 1: there is one path, not two"));
  List("image.pgm  small.pgm\n");
  EXPECT_THAT(ErrorText<DataError>([&] { LayerTester<float>(Text(""), Shapes{}); }),
              HasSubstr("line 1: the image is 2x4, its labels are 2x2"));
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                LayerTester<float>(Text("", "transform_param { mirror: true }"), Shapes{});
              }),
              HasSubstr("crop_size and mirror would change the images and not their labels"));
}

}  // namespace
}  // namespace carafe
