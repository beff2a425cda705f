// CaffeGPI's raw files, as the layers ParallelData and ParallelInMemData read them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/file.h"
#include "tests/support/data_layer_runner.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `count` PPM files of 1x2 one after the other; picture i holds 10 i .. 10 i + 5 and has label i.
void WriteSet(const TestFolder& folder, int count) {
  std::string raw, labels;
  for (int i = 0; i < count; ++i) {
    raw += "P6\n02 01\n255\n";
    for (int k = 0; k < 6; ++k) raw += static_cast<char>(10 * i + k);
    labels += fmt::format("{}\n", i);
  }
  WriteFileAtomically(folder / "raw", raw);
  WriteFileAtomically(folder / "labels", labels);
}

std::string Text(const TestFolder& folder, const std::string& settings,
                 const std::string& type = "ParallelData",
                 const std::string& message = "parallel_data_param") {
  return fmt::format(
      "name: \"d\" type: \"{}\" top: \"data\" top: \"label\"\n"
      "{} {{ root_folder: \"{}\" source: \"raw\" label: \"labels\" {} }}",
      type, message, folder / "", settings);
}

constexpr char kSize[] = "new_height: 1 new_width: 2 ";

TEST(ParallelData, GivesBgrPlanesAndLabels) {
  const TestFolder folder;
  WriteSet(folder, 3);
  DataLayerRunner<float> layer(Text(folder, std::string(kSize) + "batch_size: 2"));
  EXPECT_EQ(layer.layer().InferShapes({}), (Shapes{{2, 3, 1, 2}, {2}}));
  EXPECT_THAT(layer.Forward(0).data(), ElementsAre(2, 5, 1, 4, 0, 3, 12, 15, 11, 14, 10, 13));
  EXPECT_THAT(layer.labels(), ElementsAre(0, 1));
  DataLayerRunner<double> memory(Text(folder, std::string(kSize) + "batch_size: 2",
                                      "ParallelInMemData", "parallel_inmem_data_param"));
  EXPECT_THAT(memory.Forward(1).labels(), ElementsAre(2, 0));
}

TEST(ParallelData, DealsDisjointSharesAndShuffles) {
  const TestFolder folder;
  WriteSet(folder, 8);
  for (int worker = 0; worker < 2; ++worker) {
    DataLayerRunner<float> layer(Text(folder, std::string(kSize) + "batch_size: 2"));
    EXPECT_THAT(layer.Forward(0, {worker, 2, 0}).labels(), ElementsAre(worker, 2 + worker));
    DataLayerRunner<float> test(Text(folder, std::string(kSize) + "batch_size: 2 test: true"));
    EXPECT_THAT(test.Forward(0, {worker, 2, 0}).labels(), ElementsAre(0, 1));
  }
  DataLayerRunner<float> shuffled(Text(folder, std::string(kSize) + "batch_size: 8 shuffle: true"));
  EXPECT_THAT(shuffled.Forward(0).labels(),
              ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_NE(shuffled.Forward(0).labels(), shuffled.Forward(1).labels());
}

TEST(ParallelData, TakesCropAndHeaderFromItsOwnMessage) {
  const TestFolder folder;
  WriteFileAtomically(folder / "raw", "\x01\x02\x03\x04");
  WriteFileAtomically(folder / "labels", "7");
  DataLayerRunner<float> layer(
      Text(folder, "new_height: 2 new_width: 2 is_color: false headerSize: 0 crop_size: 1"), TEST);
  EXPECT_THAT(layer.Forward(0).data(), ElementsAre(1));
  EXPECT_THAT(layer.labels(), ElementsAre(7));
}

TEST(ParallelData, RefusesFilesThatDoNotFit) {
  const TestFolder folder;
  WriteSet(folder, 3);
  const auto text = [&](const std::string& settings) {
    return ErrorText<Error>(
        [&] { DataLayerRunner<float>(Text(folder, settings)).layer().InferShapes({}); });
  };
  EXPECT_THAT(text("new_height: 2 new_width: 2"),
              HasSubstr("the file has 57 bytes, which is not a whole number of records of 25 bytes "
                        "(header 13 + 2x2x3)"));
  EXPECT_THAT(text(""), HasSubstr("new_height and new_width say 0x0"));
  WriteFileAtomically(folder / "labels", "1\n2\n");
  EXPECT_THAT(text(kSize), HasSubstr("there are 2 labels for the 3 images"));
  WriteFileAtomically(folder / "labels", "1\n2\nthree\n");
  EXPECT_THAT(text(kSize), HasSubstr("record 2: error: (line 3, \"three\") is no label"));
}

}  // namespace
}  // namespace carafe
