// What a run shows: the outputs of P workers are those of one worker with the whole batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "carafe/base/log.h"
#include "carafe/comm/run_ranks.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using Values = std::map<std::string, double>;  // by output

class DisplayTest : public SmallTraining {
 protected:
  void TearDown() override {
    SetLogFile("/dev/null");
    SmallTraining::TearDown();
  }

  // The accuracy in training, too, and an output with one element per row.
  SolverSpec SpecWithOutputs() const {
    SolverSpec spec = Spec(12, "display: 1 test_initialization: false");
    NetParameter& net = *spec.param.mutable_net_param();
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (layer.name() == "accuracy") layer.clear_include();
      if (layer.name() == "loss") layer.add_loss_weight(0.5f);
    }
    LayerParameter& best = *net.add_layer();
    best.set_name("best");
    best.set_type("ArgMax");
    best.add_bottom("ip2");
    best.add_top("best");
    return spec;
  }

  // Leaves train.log and metrics.csv of three iterations in folder_/NAME.
  void Train(const std::string& name, int ranks, int workers, int64_t global_batch) const {
    TrainOptions options = Quiet();
    options.write_files = true;
    options.run_dir = (folder_ / name).string();
    options.workers = workers;
    options.global_batch = global_batch;
    RunRanks(ranks, [&](Group& group) {
      Stream stream;
      Trainer<double> trainer(SpecWithOutputs(), options, group, stream);
      trainer.Step(3);
    });
  }

  // The outputs in iteration 2, by metrics.csv.
  Values Metrics(const std::string& name) const {
    Values values;
    std::ifstream file(folder_ / name / "metrics.csv");
    for (std::string line; std::getline(file, line);) {
      std::stringstream row(line);
      std::string iteration, seconds, phase, net, output, value;
      for (std::string* field : {&iteration, &seconds, &phase, &net, &output, &value})
        std::getline(row, *field, ',');
      if (iteration == "2" && phase == "train") values[output] = std::stod(value);
    }
    return values;
  }

  // The outputs in iteration 2, by the log: "Train net output #0: accuracy = 0.25".
  Values Log(const std::string& name) const {
    Values values;
    std::ifstream file(folder_ / name / "train.log");
    for (std::string line; std::getline(file, line);) {
      const size_t output = line.find(": ", line.find("Train net output #"));
      if (line.find("Train net output #") == std::string::npos) continue;
      const size_t equals = line.find(" = ", output);
      values[line.substr(output + 2, equals - output - 2)] = std::stod(line.substr(equals + 3));
    }
    return values;
  }
};

TEST_F(DisplayTest, ShowsTheMeanOverAllWorkersOfAllRanks) {
  for (const int64_t global_batch : {12, 10}) {  // 10: uneven rows, 3, 3, 2 and 2 of 4 workers
    const std::string alone = fmt::format("alone_{}", global_batch);
    Train(alone, 1, 1, global_batch);
    const Values expected = Metrics(alone), logged = Log(alone);
    ASSERT_GT(expected.at("loss"), 0);
    ASSERT_GT(expected.at("accuracy"), 0);
    ASSERT_GT(logged.at("loss"), 0);
    for (const auto& [ranks, workers] : {std::pair(1, 2), {1, 4}, {2, 1}, {2, 2}}) {
      const std::string name =
          fmt::format("{}_ranks_{}_workers_{}_rows", ranks, workers, global_batch);
      Train(name, ranks, workers, global_batch);
      const Values metrics = Metrics(name), log = Log(name);
      for (const char* output : {"loss", "accuracy"}) {
        EXPECT_NEAR(metrics.at(output), expected.at(output), 1e-7) << name << ", " << output;
        EXPECT_NEAR(log.at(output), logged.at(output), 1e-5) << name << ", " << output;
      }
    }
  }
}

TEST_F(DisplayTest, ShowsAnElementOfEveryRowThatSomeWorkerHas) {
  Train("uneven", 2, 2, 10);
  const Values metrics = Metrics("uneven");
  EXPECT_TRUE(metrics.contains("best[2]"));
  EXPECT_FALSE(metrics.contains("best[3]"));
}

}  // namespace
}  // namespace carafe
