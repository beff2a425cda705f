// TrainingState through files and between ranks.
#include "carafe/solvers/training_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "carafe/comm/run_ranks.h"
#include "carafe/solvers/state_file.h"
#include "carafe/train/broadcast_message.h"
#include "tests/support/fill_message.h"
#include "tests/support/small_training.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

constexpr SolverParameter::SnapshotFormat kFormats[] = {SolverParameter::BINARYPROTO,
                                                        SolverParameter::HDF5};

// The fields are those of the message, found at run time: one that is added is tested here without
// being named, and needs no code to be written, read and sent.
TEST(TrainingState, EveryFieldSurvivesWritingReadingAndSending) {
  TrainingState state;
  FillMessage(&state);
  std::vector<const google::protobuf::FieldDescriptor*> set;
  state.GetReflection()->ListFields(state, &set);
  EXPECT_GE(set.size(), 11u);
  for (const auto format : kFormats) {
    const TestFolder folder;
    const std::string path = folder / "s.solverstate";
    std::vector<std::string> received(3);
    RunRanks(3, [&](Group& group) {
      TrainingState mine;
      if (group.rank() == 0) {
        WriteStateFile<float>(path, format, ToStateHead(state, "w.caffemodel"),
                              [](TensorSink<float>&) {});
        mine = FromStateHead(OpenStateFile(path).head);
      } else {
        mine.set_seed(99);  // of this rank, to be replaced
      }
      BroadcastMessage(group, &mine, "the training state");
      received[static_cast<size_t>(group.rank())] = mine.DebugString();
    });
    for (const std::string& text : received) EXPECT_EQ(text, state.DebugString()) << format;
  }
}

// The forms in which 259e51b stored the plan and a plateau.
TEST(TrainingState, ReadsOlderForms) {
  StateHead head;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      iter: 5 learned_net: "w" current_step: 2
      carafe {
        samples_seen: 20 seed: 7
        plan: "tree 0.5\n3x3 2->2 6x6 n4 data=winograd2x2\n3x3 2->2 6x6 n4 forward=direct\n"
        plateau_lowest: 0.25 plateau_since: 4 plateau_losses: 1 plateau_losses: 0.5 })",
                                                            &head));
  TrainingState expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      iteration: 5 samples_seen: 20 seed: 7
      training_plan {
        exchange: "tree" bucket_mb: 0.5
        convolutions { key: "3x3 2->2 6x6 n4 data" algorithm: "winograd2x2" }
        convolutions { key: "3x3 2->2 6x6 n4 forward" algorithm: "direct" } }
      rate_policy { step: 2 plateau { lowest: 0.25 since: 4 losses: 1 losses: 0.5 } })",
                                                            &expected));
  const TrainingState state = FromStateHead(head);
  EXPECT_EQ(state.DebugString(), expected.DebugString());
  EXPECT_EQ(ConvolutionLines(state.training_plan()),
            "3x3 2->2 6x6 n4 data=winograd2x2\n3x3 2->2 6x6 n4 forward=direct\n");
}

TEST(TrainingState, OfCaffeHasAnIterationAndAStep) {
  StateHead head;
  head.set_iter(5);
  head.set_current_step(2);
  const TrainingState state = FromStateHead(head);
  EXPECT_EQ(state.iteration(), 5);
  EXPECT_EQ(state.rate_policy().step(), 2);
  EXPECT_FALSE(state.has_samples_seen());
}

// ---- whole runs ----

struct PolicyCase {
  const char* name;
  const char* settings;
};
void PrintTo(const PolicyCase& policy, std::ostream* out) { *out << policy.settings; }

const PolicyCase kPolicies[] = {
    {"fixed", ""},
    {"step", "gamma: 0.5 stepsize: 3"},
    {"exp", "gamma: 0.9"},
    {"inv", "gamma: 0.1 power: 0.5"},
    {"multistep", "gamma: 0.5 stepvalue: 2 stepvalue: 4 stepvalue: 5 stepvalue: 8"},
    {"poly", "power: 2"},
    {"sigmoid", "gamma: 0.5 stepsize: 4"},
    {"cosine", ""},
    {"plateau",
     "gamma: 0.5 plateau_winsize: 2 plateau_winsize: 2 plateau_winsize: 2 average_loss: 3"},
};

class ResumeTest : public SmallTraining, public ::testing::WithParamInterface<PolicyCase> {
 protected:
  SolverSpec SpecOf(int batch, SolverParameter::SnapshotFormat format, int iterations) const {
    SolverSpec spec = Spec(batch, "momentum: 0.9", 12);
    google::protobuf::TextFormat::MergeFromString(GetParam().settings, &spec.param);
    spec.param.set_lr_policy(GetParam().name);
    spec.param.set_snapshot_format(format);
    spec.param.set_snapshot(iterations);
    return spec;
  }
  std::string State(SolverParameter::SnapshotFormat format, int iteration) const {
    return (folder_ / fmt::format("snap_iter_{}.solverstate{}", iteration,
                                  format == SolverParameter::HDF5 ? ".h5" : ""))
        .string();
  }
};

// A run of 12 iterations, and one that resumes its snapshot of iteration 5.
TEST_P(ResumeTest, ReachesTheWeightsAndTheRateOfTheWholeRunInBothFormats) {
  for (const auto format : kFormats) {
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(fmt::format("format {}, {} ranks", static_cast<int>(format), ranks));
      std::vector<double> rates;
      const auto run = [&](const TrainOptions& options, int snapshots) {
        Weights<float> weights;
        RunRanks(ranks, [&](Group& group) {
          Stream stream;
          Trainer<float> trainer(SpecOf(4, format, snapshots), options, group, stream);
          trainer.Run();
          const Weights<float> mine = WeightsOf(trainer);
          if (group.rank() != 0) return;
          weights = mine;
          rates.push_back(trainer.solver().rate());
        });
        return weights;
      };
      const Weights<float> whole = run(Quiet(), 5);
      TrainOptions options = Quiet();
      options.snapshot = State(format, 5);
      EXPECT_EQ(run(options, 0), whole);
      EXPECT_EQ(rates.at(0), rates.at(1));
    }
  }
}

TEST_P(ResumeTest, OnAnotherNumberOfRanksItReachesTheWeightsToRounding) {
  for (const auto format : kFormats) {
    const Weights<double> whole = Train<double>(1, SpecOf(12, format, 0), Quiet());
    Train<double>(2, SpecOf(6, format, 5), Quiet());
    TrainOptions options = Quiet();
    options.snapshot = State(format, 5);
    EXPECT_LE(Difference(whole, Train<double>(3, SpecOf(4, format, 0), options)), 1e-10)
        << "format " << format;
  }
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, ResumeTest, ::testing::ValuesIn(kPolicies),
                         [](const auto& info) { return std::string(info.param.name); });

// The trainer keeps facts that no other object has: here the loss scale, which nothing uses yet.
using KeptFactsTest = SmallTraining;
TEST_F(KeptFactsTest, GoFromSnapshotToSnapshotOnAllRanks) {
  for (const auto format : kFormats) {
    SolverSpec spec = Spec(4, "", 4);
    spec.param.set_snapshot_format(format);
    Train<float>(1, spec, Quiet());
    const std::string end = format == SolverParameter::HDF5 ? ".h5" : "";
    const std::string path = (folder_ / ("snap_iter_4.solverstate" + end)).string();
    StateFile file = OpenStateFile(path);
    file.head.mutable_carafe()->set_loss_scale(1024);
    TensorSet tensors;
    tensors.Add(std::move(file.tensors));
    const size_t histories = tensors.histories();
    const std::string changed = (folder_ / ("changed.solverstate" + end)).string();
    WriteStateFile<float>(changed, format, file.head, [&](TensorSink<float>& sink) {
      for (size_t i = 0; i < histories; ++i) {
        const std::vector<double> values = tensors.Read(HistoryName(i));
        sink.WriteWhole(HistoryName(i), tensors.ShapeOf(HistoryName(i)),
                        std::vector<float>(values.begin(), values.end()));
      }
    });
    TrainOptions options = Quiet();
    options.snapshot = changed;
    spec.param.set_max_iter(6);
    std::vector<double> scales(2);
    RunRanks(2, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(spec, options, group, stream);
      scales[static_cast<size_t>(group.rank())] = trainer.state().loss_scale();
      trainer.Run();
    });
    EXPECT_THAT(scales, ::testing::ElementsAre(1024, 1024));
    const TrainingState last =
        OpenStateFile((folder_ / ("snap_iter_6.solverstate" + end)).string()).head.carafe();
    EXPECT_EQ(last.loss_scale(), 1024);
    EXPECT_EQ(last.last_snapshot(), 6);
    EXPECT_EQ(last.tests_done(), 1) << "one test at the start of the first run";
  }
}

}  // namespace
}  // namespace carafe
