// Snapshots of 259e51b (tests/snapshots/259e51b) resume here, to what that version reached itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "carafe/base/file.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/net/plan.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/state_file.h"
#include "carafe/solvers/training_state.h"
#include "carafe/solvers/update_rule.h"
#include "carafe/train/trainer.h"
#include "tests/support/paths.h"
#include "tests/support/small_training.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

// Another CPU, or another order of the sums in a convolution, may round differently.
constexpr double kTolerance = 2e-5;

std::string Fixture(const std::string& name) {
  return SourceDir() + "/tests/snapshots/259e51b/" + name;
}

// A line of cases.txt.
struct Case {
  std::string name, net, settings;
  int workers = 1;
  bool measured = false;
  std::vector<std::string> endings;  // of the files to resume
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  std::istringstream lines(ReadFile(Fixture("cases.txt")));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::vector<std::string> parts;
    for (std::string part; std::getline(in, part, '|');) parts.push_back(Trimmed(part));
    Case& c = cases.emplace_back();
    c.name = parts.at(0);
    c.net = parts.at(2);
    c.workers = std::stoi(parts.at(3));
    c.measured = parts.at(4) == "measure";
    c.settings = parts.at(5);
    c.endings.push_back("");
    if (parts.at(1) == "binary hdf5") c.endings.push_back(".h5");
  }
  return cases;
}

std::string RateOf(const std::string& name) {
  std::istringstream in(ReadFile(Fixture("rates.txt")));
  for (std::string found, rate; in >> found >> rate;) {
    if (found == name) return rate;
  }
  return "not in rates.txt";
}

// With another seed than that of the snapshot, which must be taken. The nets have batches of 4.
SolverSpec SpecOf(const Case& c, const TestFolder& folder, int batch = 4) {
  std::string net = ReadFile(Fixture(c.net + ".prototxt"));
  for (size_t at = 0; (at = net.find("{ dim: 4", at)) != std::string::npos; ++at) {
    net.replace(at, 8, fmt::format("{{ dim: {}", batch));
  }
  return ParseSolverSpec(
      fmt::format("{} net_param {{ {} }} random_seed: 8 snapshot_prefix: \"{}\" max_iter: 10 {}",
                  ReadFile(Fixture("common.txt")), net, folder / c.name, c.settings),
      "solver.prototxt");
}

TensorSet TensorsOf(const std::string& path) {
  TensorSet tensors;
  tensors.Add(OpenStateFile(path).tensors);
  return tensors;
}

void ExpectNear(const std::vector<double>& expected, const std::vector<double>& got,
                const std::string& what) {
  ASSERT_EQ(expected.size(), got.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], kTolerance * largest) << what << " element " << i;
  }
}

// Both snapshots are of iteration 10.
void ExpectSameState(const std::string& expected, const std::string& got) {
  const TrainingState theirs = FromStateHead(OpenStateFile(expected).head);
  const TrainingState ours = FromStateHead(OpenStateFile(got).head);
  EXPECT_EQ(ours.iteration(), 10);
  EXPECT_EQ(theirs.iteration(), 10);
  EXPECT_EQ(ours.samples_seen(), theirs.samples_seen());
  EXPECT_EQ(ours.seed(), theirs.seed());
  EXPECT_EQ(ours.tests_done(), theirs.tests_done());
  EXPECT_EQ(ours.workers(), theirs.workers());
  EXPECT_EQ(ours.global_batch(), theirs.global_batch());
  EXPECT_EQ(ours.rate_policy().step(), theirs.rate_policy().step());
  const PlateauState &a = ours.rate_policy().plateau(), &b = theirs.rate_policy().plateau();
  EXPECT_EQ(a.since(), b.since());
  ExpectNear({b.losses().begin(), b.losses().end()}, {a.losses().begin(), a.losses().end()},
             "losses of the plateau");
  const TensorSet our_tensors = TensorsOf(got), their_tensors = TensorsOf(expected);
  ASSERT_EQ(our_tensors.histories(), their_tensors.histories());
  for (size_t i = 0; i < our_tensors.histories(); ++i) {
    const std::string name = HistoryName(i);
    EXPECT_EQ(our_tensors.ShapeOf(name), their_tensors.ShapeOf(name));
    ExpectNear(their_tensors.Read(name), our_tensors.Read(name), name);
  }
}

class OldSnapshotTest : public ::testing::TestWithParam<Case> {};

TEST_P(OldSnapshotTest, ResumesToTheWeightsThatItsVersionReached) {
  const Case& c = GetParam();
  for (const std::string& ending : c.endings) {
    SCOPED_TRACE("ending " + ending);
    const TestFolder folder;
    TrainOptions options = Quiet();
    options.workers = c.workers;
    if (c.measured) options.algorithm = "measure";
    options.snapshot = Fixture(c.name + "_iter_5.solverstate" + ending);
    Group group;
    Stream stream;
    Trainer<float> trainer(SpecOf(c, folder), options, group, stream);
    EXPECT_EQ(trainer.solver().iteration(), 5);
    EXPECT_EQ(trainer.Run(), TrainEnd::kDone);
    EXPECT_EQ(fmt::format("{:g}", trainer.solver().rate()), RateOf(c.name));
    const TrainingPlan stored = FromStateHead(OpenStateFile(options.snapshot).head).training_plan();
    const TrainingPlan& plan = trainer.state().training_plan();
    EXPECT_EQ(plan.exchange(), stored.exchange());
    EXPECT_EQ(plan.bucket_mb(), stored.bucket_mb());
    // In the present form of the keys.
    EXPECT_EQ(ConvolutionLines(plan), ChoicesToText(ChoicesFromText(ConvolutionLines(stored))));
    EXPECT_EQ(plan.convolutions_size() > 0, c.measured);
    ExpectSameState(Fixture(c.name + "_iter_10.solverstate"),
                    folder / (c.name + "_iter_10.solverstate"));
    const NetParameter theirs = ReadNetBinary(Fixture(c.name + "_iter_10.caffemodel"));
    const NetParameter ours = ReadNetBinary(folder / (c.name + "_iter_10.caffemodel"));
    ASSERT_EQ(ours.layer_size(), theirs.layer_size());
    for (int l = 0; l < ours.layer_size(); ++l) {
      ASSERT_EQ(ours.layer(l).blobs_size(), theirs.layer(l).blobs_size());
      for (int b = 0; b < ours.layer(l).blobs_size(); ++b) {
        const std::string what = fmt::format("{}/{}", ours.layer(l).name(), b);
        ExpectNear(BlobProtoValues(theirs.layer(l).blobs(b), "", what),
                   BlobProtoValues(ours.layer(l).blobs(b), "", what), what);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of259e51b, OldSnapshotTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OldSnapshots, HaveEveryRuleInBothFormats) {
  std::map<std::string, size_t> formats;
  for (const Case& c : Cases()) {
    SolverParameter param;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(c.settings, &param));
    formats[param.type()] = std::max(formats[param.type()], c.endings.size());
  }
  for (const std::string& rule : RuleRegistry::Instance().Names()) EXPECT_EQ(formats[rule], 2u);
}

// A run of two workers goes on with one that has their batches, and on two ranks.
TEST(OldSnapshots, ResumeOnAnotherNumberOfWorkers) {
  const std::vector<Case> cases = Cases();
  const Case& c = *std::ranges::find(cases, "workers", &Case::name);
  const auto weights = [&](int ranks, int batch) {
    const TestFolder folder;
    TrainOptions options = Quiet();
    options.snapshot = Fixture("workers_iter_5.solverstate");
    Weights<float> result = Train<float>(ranks, SpecOf(c, folder, batch), options);
    EXPECT_EQ(
        FromStateHead(OpenStateFile(folder / "workers_iter_10.solverstate").head).samples_seen(),
        80);
    return result;
  };
  const NetParameter theirs = ReadNetBinary(Fixture("workers_iter_10.caffemodel"));
  const Weights<float> two = weights(2, 4), one = weights(1, 8);
  size_t p = 0;
  for (const LayerParameter& layer : theirs.layer()) {
    for (const BlobProto& blob : layer.blobs()) {
      const std::vector<double> expected = BlobProtoValues(blob, "", layer.name());
      ExpectNear(expected, {two.at(p).begin(), two.at(p).end()}, layer.name() + " of two ranks");
      ExpectNear(expected, {one.at(p).begin(), one.at(p).end()}, layer.name() + " of one worker");
      ++p;
    }
  }
  EXPECT_EQ(p, two.size());
}

}  // namespace
}  // namespace carafe
