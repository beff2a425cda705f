// The Data layer as a net would run it, over databases that the tests write.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "carafe/base/error.h"
#include "carafe/data/database_writer.h"
#include "carafe/layers/layer.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Serialized(int height, int width, int first, int label) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(height);
  datum.set_width(width);
  for (int i = 0; i < height * width; ++i) {
    datum.mutable_data()->push_back(static_cast<char>(first + i));
  }
  datum.set_label(label);
  return datum.SerializeAsString();
}

void WriteDb(const std::string& path, const std::vector<std::string>& values) {
  const auto writer = NewLmdbWriter(path);
  for (size_t i = 0; i < values.size(); ++i) writer->Put(fmt::format("{:08d}", i), values[i]);
  writer->Finish();
}

// Record i: 2x2 pixels i, i+1, i+2, i+3 and the label i.
void WriteNumbered(const std::string& path, int count) {
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) values.push_back(Serialized(2, 2, i, i));
  WriteDb(path, values);
}

// A Data layer with its tops. `settings` come on top of name, type, tops and source.
template <typename T>
class DataRunner {
 public:
  DataRunner(const std::string& source, const std::string& data_param,
             const std::string& transform_param = "", Phase phase = TRAIN, int tops = 2)
      : blobs_(static_cast<size_t>(tops)) {
    LayerParameter param;
    const Place place = ParseText(
        fmt::format("name: \"d\" type: \"Data\" top: \"data\" {}\n"
                    "data_param {{ source: \"{}\" backend: LMDB {} }}\ntransform_param {{ {} }}",
                    tops > 1 ? "top: \"label\"" : "", source, data_param, transform_param),
        "net.prototxt", &param);
    layer_ = MakeLayer<T>(LayerSpec(param, phase, place));
    for (Blob<T>& blob : blobs_) tops_.push_back(&blob);
  }

  DataRunner& Forward(int64_t pass, const Replica& replica = {}, int64_t stride = 1) {
    RunContext run{.stream = stream_,
                   .pass = {.seed = 11, .index = pass, .stride = stride},
                   .replica = replica};
    layer_->Reshape(run, {}, tops_);
    layer_->Forward(run, {}, tops_);
    return *this;
  }
  Layer<T>& layer() { return *layer_; }
  const Shape& shape(int top) const { return blobs_[static_cast<size_t>(top)].shape(); }
  std::vector<T> data() { return blobs_[0].DataToHost(stream_); }
  std::vector<T> labels() { return blobs_[1].DataToHost(stream_); }

 private:
  Stream stream_;
  std::unique_ptr<Layer<T>> layer_;
  std::vector<Blob<T>> blobs_;
  std::vector<Blob<T>*> tops_;
};

template <typename T>
class DataOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DataOf, Types);

TYPED_TEST(DataOf, GivesTransformedRecordsAndLabelsInFileOrder) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 5);
  DataRunner<TypeParam> data(folder / "db", "batch_size: 2", "scale: 0.5 mean_value: 1");
  EXPECT_EQ(data.layer().InferShapes({}), (Shapes{{2, 1, 2, 2}, {2}}));
  data.Forward(0);
  EXPECT_EQ(data.shape(0), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(data.shape(1), (Shape{2}));
  EXPECT_THAT(data.data(), ElementsAre(-0.5, 0, 0.5, 1, 0, 0.5, 1, 1.5));
  EXPECT_THAT(data.labels(), ElementsAre(0, 1));
}

TEST(Data, WrapsAroundForEver) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 5);
  DataRunner<float> data(folder / "db", "batch_size: 3");
  EXPECT_THAT(data.Forward(0).labels(), ElementsAre(0, 1, 2));
  EXPECT_THAT(data.Forward(1).labels(), ElementsAre(3, 4, 0));
  EXPECT_THAT(data.Forward(2).labels(), ElementsAre(1, 2, 3));
  EXPECT_THAT(data.Forward(1000000).labels(), ElementsAre(0, 1, 2));
}

TEST(Data, GivesTheSameForThePassWhateverCameBefore) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 50);
  const std::string settings = "batch_size: 4 shuffle: true",
                    transform = "crop_size: 1 mirror: true";
  DataRunner<float> straight(folder / "db", settings, transform);
  std::map<int64_t, std::vector<float>> expected;
  for (int64_t n = 0; n < 30; ++n) expected[n] = straight.Forward(n).data();
  DataRunner<float> jumping(folder / "db", settings, transform);
  for (const int64_t n : {17, 18, 19, 3, 3, 29, 0, 1}) {
    EXPECT_EQ(jumping.Forward(n).data(), expected[n]);
  }
}

TEST(Data, WorkersTogetherSeeOneWorkersBatchWithItsAugmentation) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 23);
  const std::string transform = "crop_size: 1 mirror: true";
  for (const int workers : {2, 3, 5}) {
    for (const std::string shuffle : {"", " shuffle: true"}) {
      const int rows = 3, global = rows * workers;
      DataRunner<double> one(folder / "db", fmt::format("batch_size: {}", global) + shuffle,
                             transform);
      std::vector<std::unique_ptr<DataRunner<double>>> each;
      for (int w = 0; w < workers; ++w) {
        each.push_back(std::make_unique<DataRunner<double>>(
            folder / "db", fmt::format("batch_size: {}", rows) + shuffle, transform));
      }
      for (int64_t n = 0; n < 12; ++n) {
        one.Forward(n);
        for (int w = 0; w < workers; ++w) {
          DataRunner<double>& worker = *each[static_cast<size_t>(w)];
          worker.Forward(n, {w, workers, 0});
          for (int r = 0; r < rows; ++r) {
            const auto row = static_cast<size_t>(r), slot = static_cast<size_t>(r * workers + w);
            EXPECT_EQ(worker.labels()[row], one.labels()[slot]);
            EXPECT_EQ(worker.data()[row], one.data()[slot]);
          }
        }
      }
    }
  }
}

TEST(Data, DividesAGivenGlobalBatch) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 20);
  DataRunner<float> first(folder / "db", "batch_size: 64"), last(folder / "db", "batch_size: 64");
  first.Forward(1, {0, 3, 7});
  EXPECT_EQ(first.shape(0), (Shape{3, 1, 2, 2}));
  EXPECT_THAT(first.labels(), ElementsAre(7, 10, 13));
  last.Forward(1, {2, 3, 7});
  EXPECT_EQ(last.shape(0), (Shape{2, 1, 2, 2}));
  EXPECT_THAT(last.labels(), ElementsAre(9, 12));
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                last.Forward(0, {2, 3, 2});
              }),
              HasSubstr("a global batch of 2 leaves nothing for worker 2 of 3"));
}

TEST(Data, DealsNothingInTestAndJumpsWholeBatches) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 20);
  DataRunner<float> data(folder / "db", "batch_size: 3", "", TEST);
  EXPECT_THAT(data.Forward(1, {1, 2, 0}, 2).labels(), ElementsAre(3, 4, 5));
  EXPECT_THAT(data.Forward(3, {1, 2, 0}, 2).labels(), ElementsAre(9, 10, 11));
  EXPECT_THAT(data.Forward(1, {1, 2, 64}, 2).labels(), ElementsAre(3, 4, 5));
}

TEST(Data, WorksWithoutLabels) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 3);
  DataRunner<float> data(folder / "db", "batch_size: 1", "", TRAIN, 1);
  EXPECT_EQ(data.layer().InferShapes({}), (Shapes{{1, 1, 2, 2}}));
  EXPECT_THAT(data.Forward(2).data(), ElementsAre(2, 3, 4, 5));
}

TEST(Data, BatchesOfOneMayChangeTheirSize) {
  const TestFolder folder;
  WriteDb(folder / "db", {Serialized(2, 2, 0, 0), Serialized(1, 3, 7, 1), Serialized(3, 1, 1, 2)});
  DataRunner<float> data(folder / "db", "batch_size: 1");
  EXPECT_EQ(data.Forward(0).shape(0), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(data.Forward(1).shape(0), (Shape{1, 1, 1, 3}));
  EXPECT_THAT(data.data(), ElementsAre(7, 8, 9));
  EXPECT_EQ(data.Forward(2).shape(0), (Shape{1, 1, 3, 1}));
  EXPECT_EQ(data.Forward(3).shape(0), (Shape{1, 1, 2, 2}));
}

TEST(Data, NamesTheRecordOfAnotherSizeInLargerBatches) {
  const TestFolder folder;
  WriteDb(folder / "db", {Serialized(2, 2, 0, 0), Serialized(2, 2, 0, 0), Serialized(1, 3, 7, 1)});
  DataRunner<float> data(folder / "db", "batch_size: 2");
  data.Forward(0);
  EXPECT_EQ(ErrorText<DataError>([&] { data.Forward(1); }),
            (folder / "db") +
                ": record 2: error: (key \"00000002\") is 1x1x3 but the first record is 1x2x2\n  "
                "fix: make all images of a data set the same size, or use batch_size: 1");
  EXPECT_THAT(data.Forward(0).labels(), ElementsAre(0, 0));  // and goes on after it
}

TEST(Data, BrokenRecordSurfacesInItsPass) {
  const TestFolder folder;
  WriteDb(folder / "db", {Serialized(2, 2, 0, 5), "\x0a\xff", Serialized(2, 2, 0, 6)});
  DataRunner<float> data(folder / "db", "batch_size: 1");
  EXPECT_THAT(data.Forward(0).labels(), ElementsAre(5));
  EXPECT_THAT(ErrorText<DataError>([&] { data.Forward(1); }),
              StartsWith((folder / "db") +
                         ": record 1: error: (key \"00000001\") is not a Datum message (2 bytes)"));
  EXPECT_THAT(data.Forward(2).labels(), ElementsAre(6));
}

TEST(Data, ShufflingDependsOnSeedAndLayerAndCoversTheEpoch) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 30);
  DataRunner<float> data(folder / "db", "batch_size: 30 shuffle: true");
  std::vector<float> first = data.Forward(0).labels(), second = data.Forward(1).labels();
  EXPECT_NE(first, second);
  std::vector<float> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(first, sorted);
  std::sort(second.begin(), second.end());
  EXPECT_EQ(second, sorted);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(sorted[i], static_cast<float>(i));
}

TEST(Data, RefusesSettingsThatCannotBeRight) {
  const auto text = [](const std::string& settings) {
    return ErrorText<ConfigError>([&] { DataRunner<float>("no_db", settings); });
  };
  EXPECT_EQ(text("batch_size: 0"),
            "net.prototxt:2:44: error: layer \"d\" (Data): batch_size is 0 or missing\n  fix: give "
            "the number of records of one pass, e.g. batch_size: 64");
  EXPECT_THAT(text(""), StartsWith("net.prototxt:2:1: error: layer \"d\" (Data): batch_size is 0"));
  EXPECT_THAT(text("batch_size: 1 prefetch: 0"), HasSubstr("prefetch is 0\n  fix: omit it"));
}

// As in the original, which moves them to transform_param only for files with V1 layers.
TEST(Data, IgnoresTransformationsInDataParamWithAWarning) {
  const TestFolder folder;
  WriteNumbered(folder / "db", 3);
  DataRunner<float> plain(folder / "db", "batch_size: 3");
  const Shapes shapes = plain.layer().InferShapes({});
  ::testing::internal::CaptureStderr();
  DataRunner<float> old(folder / "db", "batch_size: 3 crop_size: 1 scale: 0.5 mirror: true");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(old.layer().InferShapes({}), shapes);
  EXPECT_THAT(log, HasSubstr("layer \"d\": crop_size has no effect in data_param; write it in "
                             "transform_param"));
}

TEST(Data, JudgesShapesAndSourceWithoutRunning) {
  EXPECT_THAT(ErrorText<DataError>([] {
                DataRunner<float>("no/such_lmdb", "batch_size: 2").layer().InferShapes({});
              }),
              StartsWith("no/such_lmdb: error: no such folder; looked for it from "));
  const TestFolder folder;
  WriteNumbered(folder / "db", 1);
  EXPECT_THAT(
      ErrorText<ConfigError>([&] {
        DataRunner<float>(folder / "db", "batch_size: 2", "crop_size: 3").layer().InferShapes({});
      }),
      StartsWith("net.prototxt:3:19: error: layer \"d\" (Data): crop_size is 3 but"));
}

TEST(Data, SaysWhenABatchHasNoRoomInMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where new would throw";
#endif
  const TestFolder folder;
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1000);
  datum.set_width(1000);
  datum.mutable_data()->resize(1000000);
  WriteDb(folder / "db", {datum.SerializeAsString()});
  DataRunner<double> data(folder / "db", "batch_size: 4000000000");
  EXPECT_THAT(ErrorText<ConfigError>([&] { data.Forward(0); }),
              HasSubstr("there is no memory for a batch of 4000000000 1 1000 1000"));
}

}  // namespace
}  // namespace carafe
