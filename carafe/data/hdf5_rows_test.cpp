#include "carafe/data/hdf5_rows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Files 0.h5, 1.h5, ... of the given numbers of rows; row i of all has data (i, -i) and label i.
std::string WriteNumbered(const TestFolder& folder, const std::vector<int>& sizes) {
  std::string list;
  int row = 0;
  for (size_t f = 0; f < sizes.size(); ++f) {
    std::vector<double> data, labels;
    for (int i = 0; i < sizes[f]; ++i, ++row) {
      data.insert(data.end(), {1.0 * row, -1.0 * row});
      labels.push_back(row);
    }
    const std::string path = folder / fmt::format("{}.h5", f);
    AddHdf5Numbers(path, "data", {sizes[f], 2}, data);
    AddHdf5Numbers(path, "label", {sizes[f]}, labels, Stored::kUint8, /*gzip=*/sizes[f] > 0);
    list += path + "\n";
  }
  WriteFileAtomically(folder / "list.txt", list);
  return folder / "list.txt";
}

const std::vector<std::string> kBoth = {"data", "label"};

std::vector<int> Epoch(Hdf5Reader<float>& reader, const Hdf5Rows& rows, bool shuffle, uint64_t key,
                       int64_t epoch) {
  std::vector<int> order;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto& views = reader.Row(shuffle ? rows.ShuffledRow(key, epoch, i) : i);
    EXPECT_EQ(views[0][0], views[1][0]);
    EXPECT_EQ(views[0][1], -views[1][0]);
    order.push_back(static_cast<int>(views[1][0]));
  }
  return order;
}

std::vector<int> Counting(int n) {
  std::vector<int> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(Hdf5Rows, ReachOverAllFiles) {
  const TestFolder folder;
  const Hdf5Rows rows(WriteNumbered(folder, {5, 0, 1, 7}), kBoth);
  EXPECT_EQ(rows.size(), 13);
  EXPECT_EQ(rows.items(), (Shapes{{2}, Shape()}));
  ASSERT_EQ(rows.blocks().size(), 3u);
  EXPECT_EQ(rows.blocks()[2].path, folder / "3.h5");
  EXPECT_EQ(rows.blocks()[2].rows, 7);
  Hdf5Reader<float> reader(rows);
  EXPECT_EQ(Epoch(reader, rows, false, 1, 0), Counting(13));
  EXPECT_EQ(Epoch(reader, rows, false, 2, 7), Counting(13));
}

TEST(Hdf5Rows, AreReadInBlocksOfLimitedSize) {
  const TestFolder folder;
  const Hdf5Rows rows(WriteNumbered(folder, {5, 7}), kBoth, /*block_values=*/9);  // 3 rows of 3
  std::vector<int64_t> sizes;
  for (const Hdf5Rows::Block& block : rows.blocks()) sizes.push_back(block.rows);
  EXPECT_THAT(sizes, ElementsAre(3, 2, 3, 3, 1));
  Hdf5Reader<float> reader(rows);
  EXPECT_EQ(Epoch(reader, rows, false, 1, 0), Counting(12));
  const Hdf5Rows single(folder / "list.txt", kBoth, /*block_values=*/1);  // a row at least
  EXPECT_EQ(single.blocks().size(), 12u);
}

TEST(Hdf5Rows, ComeOnceInEveryShuffledEpoch) {
  const TestFolder folder;
  const std::string list = WriteNumbered(folder, {5, 12, 1, 7});
  for (const int64_t block_values : {Hdf5Rows::kBlockValues, int64_t{9}}) {
    const Hdf5Rows rows(list, kBoth, block_values);
    Hdf5Reader<float> reader(rows), again(rows);
    std::vector<std::vector<int>> seen;
    for (const uint64_t key : {1, 2}) {
      for (int64_t epoch = 0; epoch < 5; ++epoch) {
        std::vector<int> order = Epoch(reader, rows, true, key, epoch);
        EXPECT_EQ(Epoch(again, rows, true, key, epoch), order);
        EXPECT_EQ(std::ranges::find(seen, order), seen.end());
        seen.push_back(order);
        std::ranges::sort(order);
        EXPECT_EQ(order, Counting(25));
      }
    }
    // Files change places, and rows within a file.
    EXPECT_TRUE(std::ranges::any_of(seen, [](const auto& order) { return order[0] >= 5; }));
    EXPECT_TRUE(std::ranges::any_of(seen, [](const auto& order) {
      return std::ranges::find(order, 1) - std::ranges::find(order, 0) != 1;
    }));
  }
}

TEST(Hdf5Rows, MayBeListedWithSpacesAndCarriageReturns) {
  const TestFolder folder;
  WriteNumbered(folder, {2, 3});
  std::filesystem::rename(folder / "1.h5", folder / "with space.h5");
  WriteFileAtomically(folder / "l.txt",
                      fmt::format("\r\n  {}\r\n\n{}", folder / "0.h5", folder / "with space.h5"));
  EXPECT_EQ(Hdf5Rows(folder / "l.txt", kBoth).size(), 5);
  WriteFileAtomically(folder / "m.txt", fmt::format("{0} {0}\n", folder / "0.h5"));
  EXPECT_EQ(Hdf5Rows(folder / "m.txt", kBoth).size(), 4);
}

TEST(Hdf5Rows, SayWhatIsWrongWithTheFiles) {
  const TestFolder folder;
  const auto error = [&](const std::vector<std::string>& files,
                         const std::vector<std::string>& datasets) {
    std::string list;
    for (const std::string& file : files) list += (folder / file) + "\n";
    WriteFileAtomically(folder / "list.txt", list);
    return ErrorText<DataError>([&] { Hdf5Rows(folder / "list.txt", datasets); });
  };
  AddHdf5Numbers(folder / "a.h5", "data", {3, 2}, {1, 2, 3, 4, 5, 6});
  AddHdf5Numbers(folder / "a.h5", "label", {2}, {1, 2});
  AddHdf5Numbers(folder / "a.h5", "one", {}, {1});
  AddHdf5Numbers(folder / "a.h5", "none", {0, 4}, {});
  AddHdf5Strings(folder / "a.h5", "names", {3});
  AddHdf5Claim(folder / "a.h5", "huge", {3, int64_t{1} << 40});
  AddHdf5Numbers(folder / "b.h5", "data", {3, 1}, {1, 2, 3});
  WriteFileAtomically(folder / "text.h5", "not HDF5");
  EXPECT_THAT(ErrorText<DataError>([&] { Hdf5Rows(folder / "no.txt", kBoth); }),
              HasSubstr("no.txt: error: the file cannot be read: No such file"));
  EXPECT_THAT(error({}, {"data"}), HasSubstr("list.txt: error: the list names no files\n  fix: "));
  EXPECT_THAT(error({"a.h5"}, {"none"}),
              HasSubstr("list.txt: error: the files of this list have no rows\n  fix: "));
  EXPECT_THAT(error({"a.h5", "c.h5"}, {"data"}), HasSubstr("c.h5: error: the file cannot be read"));
  EXPECT_THAT(error({"a.h5", "text.h5"}, {"data"}),
              HasSubstr("text.h5: error: this is not an HDF5 file"));
  EXPECT_THAT(error({"a.h5"}, {"data", "lable"}),
              HasSubstr("a.h5: error: dataset \"lable\" is not in the file"));
  EXPECT_THAT(error({"a.h5"}, {"names"}),
              HasSubstr("a.h5: error: dataset \"names\" holds strings"));
  EXPECT_THAT(error({"a.h5"}, {"one"}),
              HasSubstr("a.h5: error: dataset \"one\" is a single number; it needs rows\n  fix: "));
  EXPECT_THAT(error({"a.h5"}, {"data", "label"}),
              HasSubstr("a.h5: error: dataset \"label\" has 2 rows, but \"data\" has 3\n  fix: "));
  EXPECT_THAT(error({"a.h5", "b.h5"}, {"data"}),
              HasSubstr("b.h5: error: dataset \"data\" has rows of shape 1 (1), but " +
                        (folder / "a.h5") + " has 2 (2)\n  fix: "));
  EXPECT_THAT(error({"a.h5"}, {"huge"}),
              HasSubstr("a.h5: error: dataset \"huge\" has shape 3 1099511627776"));
}

TEST(Hdf5Rows, SayWhenAFileChangesOrGoesWhileItIsRead) {
  const TestFolder folder;
  const Hdf5Rows rows(WriteNumbered(folder, {4, 4}), kBoth);
  Hdf5Reader<double> reader(rows);
  reader.Row(0);
  std::filesystem::rename(folder / "1.h5", folder / "x.h5");
  EXPECT_THAT(ErrorText<DataError>([&] { reader.Row(4); }),
              HasSubstr("1.h5: error: the file cannot be read"));
  AddHdf5Numbers(folder / "1.h5", "data", {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(ErrorText<DataError>([&] { reader.Row(4); }),
              HasSubstr("1.h5: error: dataset \"data\" is not what it was when the net was made"));
  std::filesystem::rename(folder / "x.h5", folder / "1.h5");
  EXPECT_EQ(reader.Row(4)[1][0], 4);
}

}  // namespace
}  // namespace carafe
