#include "carafe/solvers/snapshot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "carafe/base/file.h"
#include "carafe/comm/group.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot_list.h"
#include "carafe/solvers/state_file.h"
#include "carafe/solvers/training_state.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/least_squares.h"
#include "tests/support/paths.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRows = 4;  // the global batch

// A solver on its own, writing to <folder>/s.
template <typename T>
struct Running {
  explicit Running(const TestFolder& folder, const std::string& more = "", int rows = 4)
      : solver(ParseSolverSpec(
                   fmt::format("base_lr: 0.1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 2 "
                               "stepvalue: 7 snapshot_prefix: \"{}\" net_param {{ {} }} {}",
                               folder / "s", LeastSquares::Layer(rows), more),
                   ""),
               stream, {}) {
    solver.Connect("allreduce", group, {.bucket_bytes = 1 << 20});
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) solver.Step();
    solver.Drain();
  }
  uint64_t Hash() { return WeightsHash(stream, solver.net()); }
  SnapshotFiles Write() { return carafe::WriteSnapshot(solver, Capture(solver, kRows)); }
  TrainingState Resume(const std::string& path) {
    const TrainingState state = ReadSnapshot(path, solver);
    Apply(state, kRows, solver);
    return state;
  }

  Stream stream;
  Group group;
  Solver<T> solver;
};

// A message of a .solverstate as of an older version, which can be changed and written again.
template <typename Message>
void ParseWithoutChecksum(const std::string& path, Message* state) {
  StateHead head;
  ASSERT_TRUE(head.ParseFromString(ReadFile(path)));
  head.clear_file();
  StateHead::GetReflection()->MutableUnknownFields(&head)->DeleteByNumber(10003);
  ASSERT_TRUE(state->ParseFromString(head.SerializeAsString()));
}

const char kMomentum[] = "momentum: 0.9";

template <typename T>
class SnapshotOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SnapshotOf, Types);

TYPED_TEST(SnapshotOf, ARunGoesOnAsIfItHadNotStopped) {
  for (const std::string settings :
       {kMomentum, "type: \"Adam\" momentum: 0.9", "type: \"AdaDelta\" delta: 1e-4",
        "type: \"RMSProp\"", "momentum: 0.9 iter_size: 2 snapshot_diff: true",
        "type: \"AdamW\" momentum: 0.9 weight_decay: 0.1",
        "type: \"LARS\" momentum: 0.9 weight_decay: 0.1",
        "type: \"LAMB\" momentum: 0.9 weight_decay: 0.1"}) {
    for (const bool hdf5 : {false, true}) {
      const std::string more = settings + (hdf5 ? " snapshot_format: HDF5" : "");
      const std::string end = hdf5 ? ".h5" : "";
      const TestFolder folder;
      Running<TypeParam> whole(folder, more), first(folder, more), second(folder, more);
      whole.Steps(10);
      first.Steps(4);
      const SnapshotFiles files = first.Write();
      EXPECT_EQ(files.state, (folder / "s_iter_4.solverstate") + end);
      EXPECT_EQ(files.weights, (folder / "s_iter_4.caffemodel") + end);
      const TrainingState read = second.Resume(files.state);
      EXPECT_EQ(read.samples_seen(), 4 * first.solver.param().iter_size() * kRows);
      EXPECT_EQ(second.solver.sample_offset(), 0);
      EXPECT_EQ(second.solver.iteration(), 4);
      EXPECT_EQ(second.Hash(), first.Hash());
      second.Steps(6);
      EXPECT_EQ(second.Hash(), whole.Hash()) << more;
      EXPECT_EQ(second.solver.learning_rate().current_step(), 2);
    }
  }
}

// In HDF5 259e51b could not write it: repeated and floating-point fields had no form there.
TEST(Snapshot, GoesOnInTheMiddleOfAPlateauInBothFormats) {
  for (const char* format : {"BINARYPROTO", "HDF5"}) {
    const TestFolder folder;
    const auto spec = [&] {
      return ParseSolverSpec(
          fmt::format("base_lr: 1e-9 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 4 "
                      "plateau_winsize: 3 average_loss: 3 snapshot_prefix: \"{}\" "
                      "snapshot_format: {} net_param {{ {} }}",
                      folder / "s", format, LeastSquares::Layer(4)),
          "");
    };
    Stream stream;
    Group group;
    Solver<double> whole(spec(), stream, {}), first(spec(), stream, {}), second(spec(), stream, {});
    for (Solver<double>* solver : {&whole, &first, &second}) {
      solver->Connect("allreduce", group, {.bucket_bytes = 1 << 20});
    }
    std::vector<double> rates, resumed;
    for (int i = 0; i < 40; ++i) {
      whole.Step();
      rates.push_back(whole.rate());
    }
    EXPECT_EQ(whole.learning_rate().current_step(), 2) << "the loss hardly moves";
    for (int i = 0; i < 6; ++i) {
      first.Step();
      resumed.push_back(first.rate());
    }
    first.Drain();
    const SnapshotFiles files = WriteSnapshot(first, Capture(first, kRows));
    Apply(ReadSnapshot(files.state, second), kRows, second);
    for (int i = 6; i < 40; ++i) {
      second.Step();
      resumed.push_back(second.rate());
    }
    EXPECT_EQ(resumed, rates) << format;
    EXPECT_EQ(second.learning_rate().state().DebugString(),
              whole.learning_rate().state().DebugString());
  }
}

TEST(Snapshot, HoldsWhatTheOriginalsHold) {
  const TestFolder folder;
  Running<float> run(folder, "type: \"Adam\" momentum: 0.9");
  run.Steps(3);
  const SnapshotFiles files = run.Write();
  SolverState state;
  ASSERT_TRUE(state.ParseFromString(ReadFile(files.state)));
  EXPECT_EQ(state.iter(), 3);
  EXPECT_EQ(state.current_step(), 1);
  EXPECT_EQ(state.learned_net(), files.weights);
  ASSERT_EQ(state.history_size(), 4);  // m of w, m of c, v of w, v of c
  EXPECT_EQ(state.history(0).shape().dim(0), 3);
  EXPECT_EQ(state.history(1).shape().dim(0), 1);
  EXPECT_EQ(state.history(2).data_size(), 3);
  const NetParameter weights = ReadNetBinary(files.weights);
  ASSERT_EQ(weights.layer_size(), 1);
  EXPECT_EQ(weights.layer(0).name(), "squares");
  EXPECT_EQ(weights.layer(0).phase(), TRAIN);
  EXPECT_EQ(weights.layer(0).loss_weight(0), 1);
  EXPECT_EQ(weights.layer(0).blobs_size(), 2);
  EXPECT_EQ(weights.layer(0).blobs(0).diff_size(), 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "")) {
    EXPECT_TRUE(entry.path() == files.state || entry.path() == files.weights ||
                entry.path() == folder / "s_iter_3.manifest")
        << entry.path();
  }
}

const char kHdf5[] = "momentum: 0.9 snapshot_format: HDF5";

TEST(Hdf5Snapshot, HoldsWhatTheOriginalsHoldAndOurs) {
  const TestFolder folder;
  Running<float> run(folder, "type: \"Adam\" momentum: 0.9 snapshot_format: HDF5");
  run.Steps(3);
  TrainingState mine = Capture(run.solver, kRows);
  mine.set_samples_seen(int64_t{1} << 40);
  mine.set_seed(~uint64_t{0});
  mine.set_workers(3);
  mine.set_global_batch(12);
  mine.mutable_training_plan()->set_exchange("allreduce");
  SetConvolutionLines("3x3 forward=direct\n3x3 data=winograd2x2\n", mine.mutable_training_plan());
  mine.set_tests_done(5);
  ::testing::internal::CaptureStderr();
  const SnapshotFiles files = WriteSnapshot(run.solver, mine);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("] Snapshotting to HDF5 file " + files.weights + "\n"));
  EXPECT_THAT(log, HasSubstr("] Snapshotting solver state to HDF5 file " + files.state + "\n"));
  const Hdf5File state(files.state);
  EXPECT_THAT(state.Members("/"),
              ElementsAre("carafe", "current_step", "file", "history", "iter", "learned_net"));
  EXPECT_EQ(state.DatasetShape("iter"), (Shape{1}));
  EXPECT_THAT(state.Read<int32_t>("iter"), ElementsAre(3));
  EXPECT_THAT(state.Read<int32_t>("current_step"), ElementsAre(1));
  EXPECT_EQ(state.ReadString("learned_net"), files.weights);
  EXPECT_THAT(state.Members("history"), ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(state.DatasetShape("history/2"), (Shape{3}));
  Running<float> other(folder, "type: \"Adam\" momentum: 0.9");
  EXPECT_THAT(state.Members("carafe"),
              ElementsAre("global_batch", "iteration", "rate_policy", "samples_seen", "seed",
                          "tests_done", "training_plan", "weights_hash", "workers"));
  EXPECT_EQ(other.Resume(files.state).DebugString(), mine.DebugString());
  EXPECT_THAT(Hdf5File(files.weights).Members("data/squares"), ElementsAre("0", "1"));
}

TEST(Hdf5Snapshot, OfTheOriginalLoads) {
  const TestFolder folder;
  const std::string from = SourceDir() + "/tests/golden/solvers/adam_hdf5/snap_iter_10";
  const StateFile state = OpenStateFile(from + ".solverstate.h5");
  EXPECT_EQ(state.head.iter(), 10);
  EXPECT_FALSE(state.head.has_carafe());
  EXPECT_THAT(state.head.learned_net(), ::testing::EndsWith("snap_iter_10.caffemodel.h5"));
  EXPECT_GT(state.tensors->shards().size(), 0u);
  EXPECT_EQ(state.tensors->shards().size() % 2, 0u);
  CheckWeightsFile(from + ".caffemodel.h5");
}

TEST(Hdf5Snapshot, ThatIsNoneOrCutOffIsRefused) {
  const TestFolder folder;
  Running<float> run(folder, kHdf5);
  run.Steps(1);
  const SnapshotFiles files = run.Write();
  const auto error = [&](const std::string& path) {
    return ErrorText<DataError>([&] {
      Running<float> other(folder, kHdf5);
      other.Resume(path);
    });
  };
  EXPECT_EQ(error(files.weights), files.weights +
                                      ": error: this HDF5 file is not a .solverstate\n"
                                      "  fix: give the .solverstate.h5, not the weights");
  const std::string whole = ReadFile(files.state);
  WriteFileAtomically(files.state, whole.substr(0, whole.size() - 50));
  EXPECT_THAT(error(files.state), HasSubstr("the HDF5 file cannot be opened: truncated file"));
  const std::string made = folder / "made.h5";
  AddHdf5Numbers(made, "iter", {2}, {1, 2}, Stored::kInt32);
  AddHdf5Numbers(made, "history/0", {3}, {1, 2, 3});
  EXPECT_THAT(error(made), HasSubstr("dataset \"iter\" has 2 values instead of one"));
  std::filesystem::remove(made);
  AddHdf5Numbers(made, "iter", {1}, {1}, Stored::kInt32);
  AddHdf5Text(made, "learned_net", files.weights);
  AddHdf5Numbers(made, "history/0", {3}, {1, 2, 3});
  EXPECT_THAT(error(made), HasSubstr("it holds 1 history blobs, but solver type SGD needs 2 here"));
  AddHdf5Numbers(made, "history/2", {3}, {1, 2, 3});
  EXPECT_THAT(error(made), HasSubstr("dataset \"history/1\" is not in the file"));
  std::filesystem::remove(made);
  AddHdf5Numbers(made, "iter", {1}, {1}, Stored::kInt32);
  AddHdf5Text(made, "learned_net", files.weights);
  AddHdf5Numbers(made, "history/0", {3}, {1, 2, 3});
  AddHdf5Numbers(made, "history/1", {1}, {1});
  EXPECT_EQ(error(made), "no error");
}

TEST(Snapshot, KeepsTheLastUpdateAsDiffWhenAsked) {
  const TestFolder folder;
  Running<float> run(folder, "snapshot_diff: true");
  run.Steps(2);
  const std::vector<float> before = run.solver.net().params()[0].blob->DataToHost(run.stream);
  run.Steps(1);
  const std::vector<float> after = run.solver.net().params()[0].blob->DataToHost(run.stream);
  const NetParameter weights = ReadNetBinary(run.Write().weights);
  const BlobProto& blob = weights.layer(0).blobs(0);
  ASSERT_EQ(blob.diff_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(blob.diff(i), before[static_cast<size_t>(i)] - after[static_cast<size_t>(i)], 1e-7);
    EXPECT_NE(blob.diff(i), 0);
  }
}

TEST(Snapshot, WithoutOurFieldsSaysSo) {
  const TestFolder folder;
  Running<float> run(folder), other(folder);
  run.Steps(1);
  const SnapshotFiles files = run.Write();
  StateHead state;
  ParseWithoutChecksum(files.state, &state);
  state.clear_carafe();
  WriteFileAtomically(files.state, state.SerializeAsString());
  const TrainingState read = other.Resume(files.state);
  EXPECT_FALSE(read.has_samples_seen());
  EXPECT_FALSE(read.has_seed());
  EXPECT_EQ(other.solver.iteration(), 1);
  EXPECT_EQ(other.solver.sample_offset(), 0) << "no position, no change of it";
}

TEST(Snapshot, FindsWeightsThatWereMovedWithIt) {
  const TestFolder folder, elsewhere;
  Running<float> run(folder), other(elsewhere);
  run.Steps(2);
  const SnapshotFiles files = run.Write();
  std::filesystem::rename(files.weights, elsewhere / "s_iter_2.caffemodel");
  std::filesystem::rename(files.state, elsewhere / "s_iter_2.solverstate");
  other.Resume(elsewhere / "s_iter_2.solverstate");
  EXPECT_EQ(other.Hash(), run.Hash());
}

// ---- what cannot be resumed ----

struct Written {
  explicit Written(const std::string& more = kMomentum) : run(folder, more) {
    run.Steps(2);
    files = run.Write();
  }
  std::string ReadError(const std::string& more = kMomentum) {
    return ErrorText<DataError>([&] {
      Running<float> other(folder, more);
      other.Resume(files.state);
    });
  }
  TestFolder folder;
  Running<float> run;
  SnapshotFiles files;
};

void CutOff(const std::string& path) {
  const std::string content = ReadFile(path);
  WriteFileAtomically(path, content.substr(0, content.size() - 3));
}

TEST(Snapshot, OfAnotherSolverTypeIsRefused) {
  Written written;
  EXPECT_EQ(written.ReadError("type: \"Adam\""),
            written.files.state +
                ": error: it holds 2 history blobs, but solver type Adam needs 4 here\n"
                "  fix: resume with the solver type and the net that wrote it");
}

TEST(Snapshot, WithOtherWeightsIsRefused) {
  Written written;
  NetParameter weights = ReadNetBinary(written.files.weights);
  weights.mutable_layer(0)->mutable_blobs(0)->set_data(0, 77);
  WriteFileAtomically(written.files.weights, weights.SerializeAsString());
  EXPECT_EQ(written.ReadError(),
            written.files.weights + ": error: these are not the weights that " +
                written.files.state +
                " was written with\n  fix: use the .caffemodel of the same snapshot, or --weights "
                "to start from it");
}

TEST(Snapshot, ThatIsCutOffIsRefused) {
  Written written;
  const std::string whole = ReadFile(written.files.state);
  CutOff(written.files.state);
  EXPECT_EQ(written.ReadError(),
            fmt::format("{}: error: this is not a whole .solverstate ({} bytes)\n  fix: the file "
                        "is truncated or of another kind; try --snapshot=auto",
                        written.files.state, whole.size() - 3));
  WriteFileAtomically(written.files.state, whole);
  const size_t size = ReadFile(written.files.weights).size();
  CutOff(written.files.weights);
  EXPECT_EQ(written.ReadError(),
            fmt::format("{}: error: this is not a whole .caffemodel ({} bytes)\n  fix: the file is "
                        "truncated or of another kind; fetch or write it again",
                        written.files.weights, size - 3));
}

TEST(Snapshot, WithoutItsWeightsIsRefused) {
  Written written;
  std::filesystem::remove(written.files.weights);
  EXPECT_EQ(written.ReadError(),
            fmt::format("{}: error: its weights are neither at {} nor at {}\n  fix: put the "
                        ".caffemodel beside the .solverstate",
                        written.files.state, written.files.weights, written.files.weights));
}

TEST(Snapshot, WithHistoryOfAnotherSizeIsRefused) {
  Written written;
  SolverState state;
  ParseWithoutChecksum(written.files.state, &state);
  state.mutable_history(0)->mutable_data()->RemoveLast();
  state.mutable_history(0)->mutable_shape()->set_dim(0, 2);
  WriteFileAtomically(written.files.state, state.SerializeAsString());
  EXPECT_EQ(written.ReadError(), written.files.state +
                                     ": error: history blob 0 has 2 values instead of 3\n"
                                     "  fix: resume with the net that wrote it");
}

TEST(Snapshot, WithImpossibleCountersIsRefused) {
  for (const char* counters : {"iteration: -1", "iteration: 5000000000", "samples_seen: -1"}) {
    Written written;
    StateHead head;
    ParseWithoutChecksum(written.files.state, &head);
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(counters, head.mutable_carafe()));
    WriteFileAtomically(written.files.state, head.SerializeAsString());
    EXPECT_THAT(written.ReadError(), HasSubstr("error: it is of iteration ")) << counters;
  }
}

TEST(Snapshot, LeavesTheSolverAsItWasWhenRefused) {
  Written written;
  Running<float> other(written.folder, "type: \"Adam\"");
  const uint64_t before = other.Hash();
  EXPECT_THROW(ReadSnapshot(written.files.state, other.solver), DataError);
  EXPECT_EQ(other.Hash(), before);
  EXPECT_EQ(other.solver.iteration(), 0);
}

// ---- the newest ----

TEST(NewestSnapshot, SkipsWhatIsBroken) {
  const TestFolder folder;
  Running<float> run(folder);
  EXPECT_EQ(NewestSnapshot(folder / "s"), "");
  for (int i = 0; i < 11; ++i) {
    run.Steps(1);
    run.Write();
  }
  const auto file = [&](int n, const char* suffix) {
    return folder / fmt::format("s_iter_{}.{}", n, suffix);
  };
  EXPECT_EQ(NewestSnapshot(folder / "s"), file(11, "solverstate"));  // by number, not by letter
  CutOff(file(11, "solverstate"));
  EXPECT_EQ(NewestSnapshot(folder / "s"), file(10, "solverstate"));
  CutOff(file(10, "caffemodel"));
  EXPECT_EQ(NewestSnapshot(folder / "s"), file(9, "solverstate"));
  std::filesystem::remove(file(9, "caffemodel"));
  EXPECT_EQ(NewestSnapshot(folder / "s"), file(8, "solverstate"));
  WriteFileAtomically(file(8, "solverstate"), "");
  EXPECT_EQ(NewestSnapshot(folder / "s"), file(7, "solverstate"));
}

TEST(NewestSnapshot, TakesBothForms) {
  const TestFolder folder;
  Running<float> hdf5(folder, kHdf5), plain(folder);
  hdf5.Steps(2);
  const SnapshotFiles second = hdf5.Write();
  plain.Steps(1);
  const SnapshotFiles first = plain.Write();
  EXPECT_EQ(NewestSnapshot(folder / "s"), first.state) << "written last";
  WriteFileAtomically(first.weights, ReadFile(first.weights).substr(0, 50));
  EXPECT_EQ(NewestSnapshot(folder / "s"), second.state);
}

TEST(NewestSnapshot, IsTheLastOneWrittenNotTheHighestIteration) {
  const TestFolder folder;
  Running<float> old_run(folder), new_run(folder);
  old_run.Steps(4);
  old_run.Write();
  new_run.Steps(2);
  const SnapshotFiles newest = new_run.Write();
  EXPECT_EQ(NewestSnapshot(folder / "s"), newest.state);
}

// Caffe's files, and ours of older versions, do not say when they were written.
TEST(NewestSnapshot, GoesByTheFileSystemWhereFilesDoNotSay) {
  const TestFolder folder;
  Running<float> run(folder);
  for (const int steps : {1, 2}) {
    run.Steps(steps);
    const SnapshotFiles files = run.Write();
    SolverState state;
    ParseWithoutChecksum(files.state, &state);
    WriteFileAtomically(files.state, state.SerializeAsString());
    std::filesystem::last_write_time(
        files.state, std::filesystem::file_time_type::clock::now() - std::chrono::hours(steps));
  }
  EXPECT_EQ(NewestSnapshot(folder / "s"), folder / "s_iter_1.solverstate");
}

// Damage that leaves a whole message: without checksums these weights would load.
TEST(NewestSnapshot, SkipsAFlippedBitInEitherFile) {
  const TestFolder folder;
  Running<float> run(folder, kMomentum);
  std::vector<SnapshotFiles> files;
  for (int i = 0; i < 3; ++i) {
    run.Steps(1);
    files.push_back(run.Write());
  }
  const auto flip = [](const std::string& path, size_t from_end) {
    std::string content = ReadFile(path);
    content[content.size() - from_end] ^= 4;
    WriteFileAtomically(path, content);
  };
  flip(files[2].state, 25);  // in the last history
  flip(files[1].weights, 3);
  EXPECT_EQ(NewestSnapshot(folder / "s"), files[0].state);
}

TEST(Snapshot, OfAnOlderVersionLoadsAsNotVerified) {
  const TestFolder folder;
  Running<float> run(folder), other(folder);
  run.Steps(2);
  const SnapshotFiles files = run.Write();
  ::testing::internal::CaptureStderr();
  other.Resume(files.state);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("not verified")));
  SolverState state;
  ParseWithoutChecksum(files.state, &state);
  WriteFileAtomically(files.state, state.SerializeAsString());
  ::testing::internal::CaptureStderr();
  other.Resume(files.state);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(files.state + ": not verified, because it has no checksum"));
}

TEST(NewestSnapshot, LooksOnlyAtItsOwnPrefix) {
  const TestFolder folder;
  Running<float> run(folder);
  run.Steps(1);
  const SnapshotFiles files = run.Write();
  const std::string state = ReadFile(files.state);
  WriteFileAtomically(folder / "s_iter_2x.solverstate", state);
  WriteFileAtomically(folder / "s_iter_.solverstate", state);
  WriteFileAtomically(folder / "other_iter_9.solverstate", state);
  WriteFileAtomically(folder / "s_iter_9.solverstate.tmp.1", state);
  WriteFileAtomically(folder / "s_iter_9.solverstate.h5.tmp.1", state);
  WriteFileAtomically(folder / "s_iter_9.5.solverstate", state);
  EXPECT_EQ(NewestSnapshot(folder / "s"), files.state);
  EXPECT_EQ(NewestSnapshot(folder / "no/such/folder/s"), "");
}

// ---- before the first iteration ----

std::string PossibleError(const TestFolder& folder, const std::string& prefix,
                          const std::string& more) {
  return ErrorText<ConfigError>([&] {
    Stream stream;
    Solver<float> solver(ParseSolverSpec(fmt::format("lr_policy: \"fixed\" net_param {{ {} }}\n"
                                                     "snapshot_prefix: \"{}\"\n{}",
                                                     LeastSquares::Layer(4), folder / prefix, more),
                                         "s.prototxt"),
                         stream, {});
    CheckSnapshotPossible(solver);
  });
}

TEST(CheckSnapshotPossible, MakesTheFolderThatItWillNeed) {
  const TestFolder folder;
  EXPECT_EQ(PossibleError(folder, "a/b/s", "snapshot: 10"), "no error");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
}

TEST(CheckSnapshotPossible, RefusesAFolderThatCannotBe) {
  const TestFolder folder;
  WriteFileAtomically(folder / "file", "");
  EXPECT_EQ(PossibleError(folder, "file/x/s", "snapshot: 10"),
            "s.prototxt:2:1: error: the snapshot folder " + (folder / "file/x") +
                " cannot be written\n  fix: choose another snapshot_prefix, or correct the "
                "folder's permissions");
  EXPECT_EQ(PossibleError(folder, "file/x/s", "snapshot_after_train: false"), "no error");
}

TEST(CheckSnapshotPossible, RefusesLayersThatHdf5CouldNotTellApart) {
  const TestFolder folder;
  EXPECT_EQ(PossibleError(folder, "s", "snapshot: 1\nsnapshot_format: HDF5"), "no error");
  const auto error = [&](const char* format) {
    return ErrorText<ConfigError>([&] {
      Stream stream;
      const std::string twice = LeastSquares::Layer(4) +
                                "layer { name: \"squares\" type: \"DummyData\" top: \"d\" "
                                "dummy_data_param { shape { dim: 1 } } }";
      Solver<float> solver(
          ParseSolverSpec(fmt::format("lr_policy: \"fixed\" net_param {{ {} }} snapshot_prefix: "
                                      "\"{}\" snapshot_format: {}",
                                      twice, folder / "s", format),
                          "s.prototxt"),
          stream, {});
      CheckSnapshotPossible(solver);
    });
  };
  EXPECT_THAT(error("HDF5"), HasSubstr("another layer has this name, too"));
  EXPECT_EQ(error("BINARYPROTO"), "no error");
}

}  // namespace
}  // namespace carafe
