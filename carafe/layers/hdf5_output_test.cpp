// The files that an HDF5Output layer writes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/hdf5_file.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Output(const std::string& path) {
  return fmt::format("type: \"HDF5Output\" hdf5_output_param {{ file_name: \"{}\" }}", path);
}

template <typename T>
class Hdf5OutputOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Hdf5OutputOf, Types);

TYPED_TEST(Hdf5OutputOf, WritesDataAndLabelWithFourAxesAndAppends) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  LayerTester<TypeParam> layer(Output(path), Shapes{{2, 3}, {2}});
  EXPECT_FALSE(std::filesystem::exists(path));  // not before the first pass
  layer.SetBottom({1, 2, 3, 4, 5, 6}).SetBottom({7, 8}, 1).Forward();
  {
    const Hdf5File file(path);  // whole after every pass
    EXPECT_EQ(file.DatasetShape("data"), (Shape{2, 3, 1, 1}));
    EXPECT_EQ(file.DatasetShape("label"), (Shape{2, 1, 1, 1}));
    EXPECT_THAT(file.Read<TypeParam>("data"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(file.Read<TypeParam>("label"), ElementsAre(7, 8));
  }
  layer.SetBottomShape({1, 3}).SetBottomShape({1}, 1);  // another number of rows
  layer.SetBottom({9, 10, 11}).SetBottom({12}, 1).Forward();
  const Hdf5File file(path);
  EXPECT_EQ(file.DatasetShape("data"), (Shape{3, 3, 1, 1}));
  EXPECT_THAT(file.Read<TypeParam>("data"), ElementsAre(1, 2, 3, 4, 5, 6, 9, 10, 11));
  EXPECT_THAT(file.Read<TypeParam>("label"), ElementsAre(7, 8, 12));
}

TEST(Hdf5Output, ReplacesAFileThatIsThere) {
  const TestFolder folder;
  WriteFileAtomically(folder / "out.h5", "something old");
  LayerTester<float> layer(Output(folder / "out.h5"), Shapes{{1}, {1}});
  layer.SetBottom({1}).SetBottom({2}, 1).Forward();
  EXPECT_THAT(Hdf5File(folder / "out.h5").Read<float>("data"), ElementsAre(1));
}

TEST(Hdf5Output, HasOneWriterAmongWorkers) {
  const TestFolder folder;
  for (const int worker : {0, 1}) {
    const std::string path = folder / fmt::format("{}.h5", worker);
    LayerTester<float> layer(Output(path), Shapes{{1}, {1}}, {.replica = {worker, 2, 0}});
    layer.Forward();
    EXPECT_EQ(std::filesystem::exists(path), worker == 0);
  }
}

TEST(Hdf5Output, SaysWhatIsWrong) {
  const TestFolder folder;
  const auto text = [&](const std::string& settings, const Shapes& bottoms) {
    return ErrorText<ConfigError>([&] { LayerTester<float>(settings, bottoms).Forward(); });
  };
  EXPECT_THAT(text("type: \"HDF5Output\"", {{1}, {1}}), HasSubstr("file_name is missing\n  fix: "));
  EXPECT_THAT(text(Output(folder / "o.h5"), {{2}, {3}}),
              HasSubstr("the bottoms have 2 and 3 rows\n  fix: "));
  EXPECT_THAT(text(Output(folder / "o.h5"), {{1, 1, 1, 1, 1}, {1}}), HasSubstr("has 5 axes"));
  EXPECT_THAT(ErrorText<DataError>([&] {
                LayerTester<float>(Output(folder / "no/such/o.h5"), Shapes{{1}, {1}}).Forward();
              }),
              HasSubstr("no/such/o.h5: error: the file cannot be written: "));
  LayerTester<float> layer(Output(folder / "o.h5"), Shapes{{2, 3}, {2}});
  layer.Forward();
  layer.SetBottomShape({2, 4});
  EXPECT_THAT(ErrorText<DataError>([&] { layer.Forward(); }),
              HasSubstr("o.h5: error: dataset \"data\" has shape 2 3 1 1 (6); rows of shape "
                        "2 4 1 1 (8) cannot follow"));
}

}  // namespace
}  // namespace carafe
