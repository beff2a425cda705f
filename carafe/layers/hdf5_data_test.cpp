// The HDF5Data layer as a net would run it, over files that the tests write.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/layers/layer.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Files of the given numbers of rows: row i of all is x = (i, i + 0.5) of shape 1x2, and label i.
std::string WriteNumbered(const TestFolder& folder, const std::vector<int>& sizes) {
  std::string list;
  int row = 0;
  for (size_t f = 0; f < sizes.size(); ++f) {
    std::vector<double> x, labels;
    for (int i = 0; i < sizes[f]; ++i, ++row) {
      x.insert(x.end(), {1.0 * row, row + 0.5});
      labels.push_back(row);
    }
    const std::string path = folder / fmt::format("{}.h5", f);
    AddHdf5Numbers(path, "x", {sizes[f], 1, 2}, x, Stored::kFloat64);
    AddHdf5Numbers(path, "label", {sizes[f]}, labels, Stored::kUint8, /*gzip=*/true);
    AddHdf5Numbers(path, "deep", {sizes[f], 1, 1, 1, 1, 1}, labels, Stored::kInt32);
    list += path + "\n";
  }
  WriteFileAtomically(folder / "list.txt", list);
  return folder / "list.txt";
}

template <typename T>
class Runner {
 public:
  Runner(const std::string& source, const std::string& settings, Phase phase = TRAIN,
         const std::vector<std::string>& tops = {"x", "label"}, const std::string& more = "")
      : blobs_(tops.size()) {
    std::string names;
    for (const std::string& top : tops) names += fmt::format(" top: \"{}\"", top);
    LayerParameter param;
    const Place place = ParseText(
        fmt::format("name: \"d\" type: \"HDF5Data\"{}\nhdf5_data_param {{ source: \"{}\" {} }}\n{}",
                    names, source, settings, more),
        "net.prototxt", &param);
    layer_ = MakeLayer<T>(LayerSpec(param, phase, place));
    for (Blob<T>& blob : blobs_) tops_.push_back(&blob);
  }
  Runner& Forward(int64_t pass, const Replica& replica = {}, int64_t stride = 1,
                  int64_t origin = 0) {
    RunContext run{.stream = stream_,
                   .pass = {.seed = 11, .index = pass, .stride = stride, .origin = origin},
                   .replica = replica};
    layer_->Reshape(run, {}, tops_);
    layer_->Forward(run, {}, tops_);
    return *this;
  }
  Layer<T>& layer() { return *layer_; }
  const Shape& shape(size_t top) const { return blobs_[top].shape(); }
  std::vector<T> values(size_t top) { return blobs_[top].DataToHost(stream_); }
  std::vector<T> labels() { return values(1); }

 private:
  Stream stream_;
  std::unique_ptr<Layer<T>> layer_;
  std::vector<Blob<T>> blobs_;
  std::vector<Blob<T>*> tops_;
};

template <typename T>
class Hdf5DataOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Hdf5DataOf, Types);

TYPED_TEST(Hdf5DataOf, GivesOneDatasetPerTopInFileOrder) {
  const TestFolder folder;
  Runner<TypeParam> data(WriteNumbered(folder, {5, 3}), "batch_size: 3", TEST,
                         {"label", "x", "deep"});
  EXPECT_EQ(data.layer().InferShapes({}), (Shapes{{3}, {3, 1, 2}, {3, 1, 1, 1, 1, 1}}));
  data.Forward(1);  // over the end of the first file
  EXPECT_EQ(data.shape(1), (Shape{3, 1, 2}));
  EXPECT_THAT(data.values(0), ElementsAre(3, 4, 5));
  EXPECT_THAT(data.values(1), ElementsAre(3, 3.5, 4, 4.5, 5, 5.5));
  EXPECT_THAT(data.values(2), ElementsAre(3, 4, 5));
  EXPECT_THAT(data.Forward(2).values(0), ElementsAre(6, 7, 0));
}

TEST(Hdf5Data, GivesBatchesLargerThanAllFiles) {
  const TestFolder folder;
  Runner<float> data(WriteNumbered(folder, {2, 1}), "batch_size: 7");
  EXPECT_THAT(data.Forward(0).labels(), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(data.Forward(1).labels(), ElementsAre(1, 2, 0, 1, 2, 0, 1));
}

TEST(Hdf5Data, GivesTheSameForThePassWhateverCameBefore) {
  const TestFolder folder;
  const std::string list = WriteNumbered(folder, {13, 4, 20});
  Runner<float> straight(list, "batch_size: 4 shuffle: true");
  std::map<int64_t, std::vector<float>> expected;
  for (int64_t n = 0; n < 30; ++n) expected[n] = straight.Forward(n).labels();
  Runner<float> jumping(list, "batch_size: 4 shuffle: true");
  for (const int64_t n : {17, 18, 19, 3, 3, 29, 0, 1}) {
    EXPECT_EQ(jumping.Forward(n).labels(), expected[n]);
  }
}

TEST(Hdf5Data, WorkersTogetherSeeOneWorkersBatch) {
  const TestFolder folder;
  const std::string list = WriteNumbered(folder, {13, 4, 6});
  for (const int workers : {2, 3, 5}) {
    for (const std::string shuffle : {"", " shuffle: true"}) {
      const int rows = 3, global = rows * workers;
      Runner<double> one(list, fmt::format("batch_size: {}", global) + shuffle);
      std::vector<std::unique_ptr<Runner<double>>> each;
      for (int w = 0; w < workers; ++w) {
        each.push_back(
            std::make_unique<Runner<double>>(list, fmt::format("batch_size: {}", rows) + shuffle));
      }
      for (int64_t n = 0; n < 12; ++n) {
        one.Forward(n);
        for (int w = 0; w < workers; ++w) {
          Runner<double>& worker = *each[static_cast<size_t>(w)];
          worker.Forward(n, {w, workers, 0});
          for (int r = 0; r < rows; ++r) {
            const auto row = static_cast<size_t>(r), slot = static_cast<size_t>(r * workers + w);
            EXPECT_EQ(worker.labels()[row], one.labels()[slot]);
            EXPECT_EQ(worker.values(0)[2 * row + 1], one.values(0)[2 * slot + 1]);
          }
        }
      }
    }
  }
}

TEST(Hdf5Data, DividesAGivenGlobalBatch) {
  const TestFolder folder;
  const std::string list = WriteNumbered(folder, {20});
  Runner<float> last(list, "batch_size: 64");
  last.Forward(1, {2, 3, 7});
  EXPECT_EQ(last.shape(0), (Shape{2, 1, 2}));
  EXPECT_THAT(last.labels(), ElementsAre(9, 12));
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                last.Forward(0, {2, 3, 2});
              }),
              HasSubstr("a global batch of 2 leaves nothing for worker 2 of 3"));
}

TEST(Hdf5Data, GoesOnFromTheOriginOfTheRun) {
  const TestFolder folder;
  Runner<float> data(WriteNumbered(folder, {20}), "batch_size: 2");
  EXPECT_THAT(data.Forward(3, {}, 1, 5).labels(), ElementsAre(11, 12));
}

TEST(Hdf5Data, DealsNothingInTestAndJumpsWholeBatches) {
  const TestFolder folder;
  Runner<float> data(WriteNumbered(folder, {11, 9}), "batch_size: 3", TEST);
  EXPECT_THAT(data.Forward(1, {1, 2, 0}, 2).labels(), ElementsAre(3, 4, 5));
  EXPECT_THAT(data.Forward(3, {1, 2, 0}, 2).labels(), ElementsAre(9, 10, 11));
  EXPECT_THAT(data.Forward(1, {1, 2, 64}, 2).labels(), ElementsAre(3, 4, 5));
}

TEST(Hdf5Data, ShufflesEveryEpochAnew) {
  const TestFolder folder;
  Runner<float> data(WriteNumbered(folder, {10, 20}), "batch_size: 30 shuffle: true");
  std::vector<float> first = data.Forward(0).labels(), second = data.Forward(1).labels();
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, second);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(first[i], static_cast<float>(i));
}

TEST(Hdf5Data, RefusesSettingsThatCannotBeRight) {
  const auto text = [](const std::string& source, const std::string& settings,
                       const std::string& more = "") {
    return ErrorText<ConfigError>([&] { Runner<float>(source, settings, TRAIN, {"x"}, more); });
  };
  EXPECT_EQ(text("l", ""),
            "net.prototxt:2:1: error: layer \"d\" (HDF5Data): batch_size is 0 or missing\n  fix: "
            "give the number of records of one pass, e.g. batch_size: 64");
  EXPECT_THAT(text("", "batch_size: 1"), HasSubstr("source is missing\n  fix: "));
  EXPECT_THAT(text("l", "batch_size: 1", "transform_param { scale: 2 }"),
              StartsWith("net.prototxt:3:1: error: layer \"d\" (HDF5Data): transform_param has no "
                         "meaning here\n  fix: "));
}

TEST(Hdf5Data, JudgesTheFilesWithoutRunning) {
  EXPECT_THAT(ErrorText<DataError>(
                  [] { Runner<float>("no/list.txt", "batch_size: 2").layer().InferShapes({}); }),
              StartsWith("no/list.txt: error: the file cannot be read: "));
  const TestFolder folder;
  const std::string list = WriteNumbered(folder, {2});
  EXPECT_THAT(ErrorText<DataError>([&] {
                Runner<float>(list, "batch_size: 2", TRAIN, {"y"}).layer().InferShapes({});
              }),
              StartsWith((folder / "0.h5") + ": error: dataset \"y\" is not in the file"));
}

}  // namespace
}  // namespace carafe
