// Runs that meet a bad snapshot: a damaged one to resume from, one that cannot be written, one of
// weights that are not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "carafe/base/file.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/solvers/snapshot_manifest.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadSnapshotTest : public SmallTraining {
 protected:
  std::string File(int iteration, const std::string& end) const {
    return (folder_ / fmt::format("snap_iter_{}.{}", iteration, end)).string();
  }
  static void FlipBit(const std::string& path, double where) {
    std::string content = ReadFile(path);
    content[static_cast<size_t>(where * static_cast<double>(content.size()))] ^= 16;
    WriteFileAtomically(path, content);
  }
  static TrainOptions Auto() {
    TrainOptions options = Quiet();
    options.snapshot = "auto";
    return options;
  }
};

TEST_F(BadSnapshotTest, AutoGoesBackToTheNewestWholeOneAndEndsWithTheSameWeights) {
  for (const auto format : {SolverParameter::BINARYPROTO, SolverParameter::HDF5}) {
    const std::string end = format == SolverParameter::HDF5 ? ".h5" : "";
    SolverSpec spec = Spec(4, "momentum: 0.9 snapshot: 2", 8);
    spec.param.set_snapshot_format(format);
    const Weights<float> whole = Train<float>(1, spec, Quiet());
    FlipBit(File(8, "solverstate" + end), 0.9);
    FlipBit(File(6, "caffemodel" + end), 0.7);
    ::testing::internal::CaptureStderr();
    const Weights<float> resumed = Train<float>(1, spec, Auto());
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, AllOf(HasSubstr("skipping " + File(8, "solverstate" + end)),
                           HasSubstr("skipping " + File(6, "solverstate" + end)),
                           HasSubstr("resuming from iteration 4, the newest snapshot that is "
                                     "whole")));
    EXPECT_EQ(resumed, whole);
    for (const int i : {2, 4, 6, 8}) std::filesystem::remove(File(i, "solverstate" + end));
  }
}

TEST_F(BadSnapshotTest, AutoTakesTheLastRunWithThisPrefix) {
  Train<float>(1, Spec(4, "snapshot: 2", 6), Quiet());
  SolverSpec other = Spec(4, "snapshot: 2", 4);
  other.param.set_random_seed(99);
  const Weights<float> second = Train<float>(1, other, Quiet());
  EXPECT_EQ(Train<float>(1, other, Auto()), second);
}

TEST_F(BadSnapshotTest, OldSnapshotsAreRemovedWhenAsked) {
  const auto kept = [&](int64_t keep, int64_t keep_every) {
    std::filesystem::remove_all(folder_);
    SetUp();
    TrainOptions options = Quiet();
    options.keep = keep;
    options.keep_every = keep_every;
    Train<float>(1, Spec(4, "snapshot: 1", 6), options);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (!entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  };
  EXPECT_EQ(kept(0, 0).size(), 18u) << "three files each";
  EXPECT_THAT(kept(1, 0), ::testing::ElementsAre("snap_iter_6.caffemodel", "snap_iter_6.manifest",
                                                 "snap_iter_6.solverstate"));
  EXPECT_THAT(kept(2, 4),
              ::testing::ElementsAre(
                  "snap_iter_4.caffemodel", "snap_iter_4.manifest", "snap_iter_4.solverstate",
                  "snap_iter_5.caffemodel", "snap_iter_5.manifest", "snap_iter_5.solverstate",
                  "snap_iter_6.caffemodel", "snap_iter_6.manifest", "snap_iter_6.solverstate"));
}

TEST_F(BadSnapshotTest, TheManifestShowsDamageToEitherFile) {
  Train<float>(1, Spec(4, "snapshot_format: HDF5", 2), Quiet());
  const std::string manifest = File(2, "manifest");
  EXPECT_EQ(ErrorText<DataError>([&] { CheckManifest(manifest); }), "no error");
  for (const std::string name : {"caffemodel.h5", "solverstate.h5"}) {
    const std::string whole = ReadFile(File(2, name));
    FlipBit(File(2, name), 0.5);
    EXPECT_THAT(ErrorText<DataError>([&] { CheckManifest(manifest); }),
                HasSubstr(File(2, name) + ": error: it does not match its checksum in"));
    WriteFileAtomically(File(2, name), whole);
  }
  WriteFileAtomically(manifest, "x");
  EXPECT_THAT(ErrorText<DataError>([&] { CheckManifest(manifest); }),
              HasSubstr("this is not a manifest of checksums"));
}

// Another solver type is no damage: an older snapshot would be of another experiment.
TEST_F(BadSnapshotTest, AutoRefusesAWholeSnapshotThatDoesNotFit) {
  Train<float>(1, Spec(4, "momentum: 0.9 snapshot: 2", 4), Quiet());
  EXPECT_THAT(ErrorText<DataError>(
                  [&] { Train<float>(1, Spec(4, "type: \"Adam\" momentum: 0.9", 6), Auto()); }),
              HasSubstr("snap_iter_4.solverstate: error: it holds"));
}

// The last update is followed by no loss that would show it.
TEST_F(BadSnapshotTest, WeightsThatAreNotFiniteAreNotWritten) {
  for (const int ranks : {1, 2}) {
    SolverSpec spec = Spec(4, "snapshot: 0", 1);
    spec.param.set_base_lr(3e38F);
    EXPECT_THAT(ErrorText<ConfigError>([&] { Train<float>(ranks, spec, Quiet()); }),
                HasSubstr("holds NaN or infinite values after iteration 1"));
    EXPECT_FALSE(std::filesystem::exists(File(1, "caffemodel")));
    TrainOptions options = Quiet();
    options.on_nan = OnNan::kContinue;
    options.check_replicas = 0;
    RunRanks(ranks, [&](Group& group) {
      Stream stream;
      Trainer<float>(spec, options, group, stream).Run();
    });
    EXPECT_TRUE(std::filesystem::exists(File(1, "caffemodel")));
    std::filesystem::remove(File(1, "caffemodel"));
  }
}

// A folder in the place of the file cannot be replaced: as on a full disk, the write fails.
TEST_F(BadSnapshotTest, ARunWithoutItsFinalModelIsAnError) {
  for (const int ranks : {1, 2}) {
    std::filesystem::create_directories(File(4, "caffemodel"));
    std::filesystem::create_directories(File(2, "caffemodel"));
    ::testing::internal::CaptureStderr();
    const std::string error =
        ErrorText<DataError>([&] { Train<float>(ranks, Spec(4, "snapshot: 2", 4), Quiet()); });
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("the snapshot of iteration 2 failed"));
    EXPECT_THAT(error, HasSubstr("snap_iter_4.caffemodel: error: renaming failed"));
  }
  ::testing::internal::CaptureStderr();
  Train<float>(1, Spec(4, "snapshot: 2 snapshot_after_train: false", 4), Quiet());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the snapshot of iteration 4 failed"));
}

}  // namespace
}  // namespace carafe
