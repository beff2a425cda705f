#include "carafe/solvers/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "carafe/base/file.h"
#include "carafe/proto/messages.h"
#include "tests/support/error_text.h"
#include "tests/support/fill_message.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Format = SolverParameter::SnapshotFormat;

constexpr Format kFormats[] = {SolverParameter::BINARYPROTO, SolverParameter::HDF5};

StateHead Head() {
  StateHead head;
  head.set_iter(7);
  head.set_learned_net("w.caffemodel");
  head.set_current_step(2);
  head.mutable_carafe()->set_samples_seen(28);
  return head;
}

template <typename T>
std::vector<T> Numbers(int64_t first, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<T>(first));
  return values;
}

std::string PathOf(const TestFolder& folder, Format format, const std::string& name = "s") {
  return folder / (name + (format == SolverParameter::HDF5 ? ".solverstate.h5" : ".solverstate"));
}

template <typename T>
class StateFileOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(StateFileOf, Types);

TYPED_TEST(StateFileOf, HoldsItsHeadAndItsTensors) {
  using T = TypeParam;
  for (const Format format : kFormats) {
    const TestFolder folder;
    const std::string path = PathOf(folder, format);
    StateHead head;
    FillMessage(&head);
    WriteStateFile<T>(path, format, head, [](TensorSink<T>& sink) {
      sink.WriteWhole("history/0", Shape{2, 3}, Numbers<T>(0, 6));
      sink.Begin({.name = "history/1", .shape = {5}, .first = 0, .count = 5});  // in pieces
      sink.Write(Numbers<T>(10, 2));
      sink.Write({});
      sink.Write(Numbers<T>(12, 3));
      sink.WriteWhole("history/2", Shape{}, Numbers<T>(20, 1));
      sink.WriteWhole("history/3", Shape{0, 2}, {});
      sink.WriteWhole("residual/conv1", Shape{2}, Numbers<T>(30, 2));
    });
    StateFile file = OpenStateFile(path);
    EXPECT_TRUE(file.verified);
    EXPECT_EQ(file.head.file().checksum(), "XXH3-128");
    head.mutable_file()->set_checksum(
        file.head.file().checksum());  // these two are set by the file
    head.mutable_file()->set_written_us(file.head.file().written_us());
    EXPECT_EQ(file.head.DebugString(), head.DebugString());
    TensorSet tensors;
    tensors.Add(std::move(file.tensors));
    EXPECT_EQ(tensors.histories(), 4u);
    EXPECT_EQ(tensors.ShapeOf("history/0"), (Shape{2, 3}));
    EXPECT_THAT(tensors.Read("history/0"), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(tensors.Read("history/1"), ElementsAre(10, 11, 12, 13, 14));
    EXPECT_EQ(tensors.ShapeOf("history/2").rank(), 0);
    EXPECT_THAT(tensors.Read("history/2"), ElementsAre(20));
    EXPECT_THAT(tensors.Read("history/3"), ElementsAre());
    EXPECT_THAT(tensors.Read("residual/conv1"), ElementsAre(30, 31));
  }
}

// As ranks that own a part of every history would write it.
TYPED_TEST(StateFileOf, APartOfAHistoryInEachOfTwoFilesLoadsWhole) {
  using T = TypeParam;
  for (const Format format : kFormats) {
    const TestFolder folder;
    const std::string first = PathOf(folder, format, "a"), second = PathOf(folder, format, "b");
    const Shape shape = {3, 5};
    const auto write = [&](const std::string& path, int64_t from, int64_t count) {
      WriteStateFile<T>(path, format, Head(), [&](TensorSink<T>& sink) {
        for (const int64_t h : {0, 1}) {
          sink.Begin({.name = HistoryName(static_cast<size_t>(h)),
                      .shape = shape,
                      .first = from,
                      .count = count});
          sink.Write(Numbers<T>(100 * h + from, count));
        }
      });
    };
    write(first, 0, 7);
    write(second, 7, 8);
    TensorSet tensors;  // in any order
    tensors.Add(OpenStateFile(second).tensors);
    tensors.Add(OpenStateFile(first).tensors);
    EXPECT_EQ(tensors.histories(), 2u);
    EXPECT_EQ(tensors.ShapeOf("history/1"), shape);
    EXPECT_EQ(tensors.Read("history/0"), Numbers<double>(0, 15));
    EXPECT_EQ(tensors.Read("history/1"), Numbers<double>(100, 15));
  }
}

TEST(StateFile, ShardsThatLeaveAGapOverlapOrDisagreeAreRefused) {
  const TestFolder folder;
  const auto error = [&](std::vector<TensorShard> shards) {
    return ErrorText<DataError>([&] {
      TensorSet tensors;
      for (const TensorShard& shard : shards) {
        const std::string path = folder / "s.solverstate";
        WriteStateFile<float>(path, SolverParameter::BINARYPROTO, Head(),
                              [&](TensorSink<float>& sink) {
                                sink.Begin(shard);
                                sink.Write(Numbers<float>(0, shard.count));
                              });
        tensors.Add(OpenStateFile(path).tensors);
      }
      tensors.Read("history/0");
    });
  };
  const auto shard = [](int64_t first, int64_t count, int64_t whole = 10) {
    return TensorShard{.name = "history/0", .shape = {whole}, .first = first, .count = count};
  };
  EXPECT_THAT(error({shard(0, 4), shard(5, 5)}),
              HasSubstr("a shard of tensor history/0 starts at element 5, the one before it ends "
                        "at 4"));
  EXPECT_THAT(error({shard(0, 4), shard(3, 7)}), HasSubstr("starts at element 3"));
  EXPECT_THAT(error({shard(0, 4), shard(4, 5)}),
              HasSubstr("the shards of tensor history/0 have 9 elements of 10"));
  EXPECT_THAT(error({shard(0, 4), shard(4, 6, 11)}),
              HasSubstr("has shape 11 (11) here and 10 (10) in"));
  TensorShard other = shard(0, 4);
  other.name = "history/1";
  EXPECT_THAT(error({other}), HasSubstr("it has no tensor history/0"));
}

// Caffe knows SolverState only, and reads histories in the order of the file.
TEST(StateFile, AsBinaryprotoIsASolverStateOfCaffe) {
  const TestFolder folder;
  const std::string path = folder / "s.solverstate";
  WriteStateFile<float>(path, SolverParameter::BINARYPROTO, Head(), [](TensorSink<float>& sink) {
    sink.WriteWhole("history/0", Shape{2, 2}, Numbers<float>(0, 4));
    sink.WriteWhole("residual/a", Shape{1}, Numbers<float>(7, 1));
    sink.WriteWhole("history/1", Shape{3}, Numbers<float>(10, 3));
  });
  SolverState state;
  ASSERT_TRUE(state.ParseFromString(ReadFile(path)));
  EXPECT_EQ(state.iter(), 7);
  EXPECT_EQ(state.learned_net(), "w.caffemodel");
  EXPECT_EQ(state.current_step(), 2);
  ASSERT_EQ(state.history_size(), 2);
  EXPECT_THAT(state.history(0).shape().dim(), ElementsAre(2, 2));
  EXPECT_THAT(state.history(0).data(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(state.history(1).data(), ElementsAre(10, 11, 12));
}

TEST(StateFile, FieldsOfALaterVersionAreIgnoredWithALineInTheLogAndKept) {
  const TestFolder folder;
  StateHead head = Head();
  auto* unknown = TrainingState::GetReflection()->MutableUnknownFields(head.mutable_carafe());
  unknown->AddVarint(4711, 5);
  const std::string path = folder / "s.solverstate";
  WriteStateFile<float>(path, SolverParameter::BINARYPROTO, head, [](TensorSink<float>&) {});
  ::testing::internal::CaptureStderr();
  const StateFile file = OpenStateFile(path);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("s.solverstate: field 4711 of carafe is unknown to this version and "
                        "ignored"));
  *head.mutable_file() = file.head.file();
  EXPECT_EQ(file.head.SerializeAsString(), head.SerializeAsString());
}

TEST(StateFile, ThatIsCutOffAnywhereIsRefused) {
  const TestFolder folder;
  const std::string path = folder / "s.solverstate";
  WriteStateFile<float>(path, SolverParameter::BINARYPROTO, Head(), [](TensorSink<float>& sink) {
    sink.WriteWhole("history/0", Shape{2, 2}, Numbers<float>(0, 4));
    sink.WriteWhole("history/1", Shape{3}, Numbers<float>(10, 3));
  });
  const std::string whole = ReadFile(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFileAtomically(path, whole.substr(0, size));
    EXPECT_THAT(ErrorText<DataError>([&] { OpenStateFile(path); }),
                HasSubstr("this is not a whole .solverstate"))
        << size << " bytes";
  }
}

// One flipped bit, or a tail of zeros, as a disk or a copy may leave it.
TEST(StateFile, ThatIsDamagedAnywhereIsRefused) {
  for (const Format format : kFormats) {
    const TestFolder folder;
    const std::string path = PathOf(folder, format);
    WriteStateFile<float>(path, format, Head(), [](TensorSink<float>& sink) {
      sink.WriteWhole("history/0", Shape{2, 2}, Numbers<float>(0, 4));
      sink.WriteWhole("residual/a", Shape{3}, Numbers<float>(10, 3));
    });
    const std::string whole = ReadFile(path);
    const size_t step = format == SolverParameter::HDF5 ? 37 : 1;
    for (size_t at = 0; at < whole.size(); at += step) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      WriteFileAtomically(path, damaged);
      EXPECT_THROW(OpenStateFile(path), DataError) << "byte " << at << " of " << whole.size();
    }
    for (const size_t zeros : {size_t{1}, size_t{19}, size_t{20}, size_t{21}, whole.size() / 3}) {
      std::string damaged = whole;
      std::fill(damaged.end() - static_cast<std::ptrdiff_t>(zeros), damaged.end(), '\0');
      if (damaged == whole) continue;
      WriteFileAtomically(path, damaged);
      EXPECT_THROW(OpenStateFile(path), DataError) << zeros << " zeros";
    }
    WriteFileAtomically(path, whole);
    EXPECT_TRUE(OpenStateFile(path).verified);
  }
}

TEST(StateFile, SaysWhenItWasWritten) {
  for (const Format format : kFormats) {
    const TestFolder folder;
    const std::string path = PathOf(folder, format);
    const auto us = [](std::chrono::system_clock::time_point time) {
      return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
    };
    const int64_t before = us(std::chrono::system_clock::now());
    WriteStateFile<float>(path, format, Head(), [](TensorSink<float>& sink) {
      sink.WriteWhole("history/0", Shape{2}, Numbers<float>(0, 2));
    });
    const int64_t written = StateWriteTime(path);
    EXPECT_GE(written, before);
    EXPECT_LE(written, us(std::chrono::system_clock::now()));
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(48));
    EXPECT_EQ(StateWriteTime(path), written) << "not by the file system";
  }
  const TestFolder folder;
  SolverState of_caffe;
  of_caffe.set_iter(3);
  WriteFileAtomically(folder / "c.solverstate", of_caffe.SerializeAsString());
  EXPECT_GT(StateWriteTime(folder / "c.solverstate"), int64_t{1700000000} * 1000000);
  EXPECT_EQ(StateWriteTime(folder / "absent.solverstate"), 0);
}

}  // namespace
}  // namespace carafe
