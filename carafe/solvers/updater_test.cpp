// One update: of a parameter of the net, and of elements that lie somewhere else.
#include "carafe/solvers/updater.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "carafe/base/index.h"

namespace carafe {
namespace {

constexpr char kNet[] =
    "layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 5 } } } "
    "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"ip\" "
    "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 } "
    "inner_product_param { num_output: 7 weight_filler { type: \"xavier\" } } }";

struct Updating {
  explicit Updating(const std::string& settings, const UpdaterSettings& more = {})
      : net(ParseNetSpec(kNet, ""), NetState()) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(settings, &param));
    net.Initialise(stream, 3);
    updater = std::make_unique<Updater<double>>(param, net, more);
  }
  Blob<double>& blob(int p) { return *At(net.params(), p).blob; }
  Stream stream;
  SolverParameter param;
  Net<double> net;
  std::unique_ptr<Updater<double>> updater;
};

std::vector<double> Gradient(size_t count, int step) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<double>(i) + 10 * step);
  return values;
}

// An owner of a shard keeps values, gradients and history of some elements; the bits are those of
// the whole parameter.
TEST(Updater, MovesAShardThatLiesElsewhereAsItMovesTheWhole) {
  for (const char* rule : {"type: 'SGD' momentum: 0.9", "type: 'Nesterov' momentum: 0.9",
                           "type: 'Adam' momentum: 0.9", "type: 'AdaDelta' momentum: 0.9"}) {
    Updating whole(std::string(rule) + " weight_decay: 0.1 iter_size: 2", {.workers = 3});
    constexpr int kWeights = 0;
    const size_t count = static_cast<size_t>(whole.blob(kWeights).count());
    std::vector<double> value = whole.blob(kWeights).DataToHost(whole.stream);
    std::vector<double> first_slot(count), second_slot(count);
    for (int step = 0; step < 3; ++step) {
      const StepNumbers<double> numbers = whole.updater->NumbersOf(
          whole.stream, step, 0.1 / (step + 1), GradientsHold::kSumsOverWorkers);
      std::vector<double> gradient = Gradient(count, step);
      whole.blob(kWeights).SetDiff(whole.stream, gradient);
      whole.updater->Update(whole.stream, kWeights, numbers);
      for (const auto& [first, size] : {std::pair<size_t, size_t>(0, 11), {11, count - 11}}) {
        whole.updater->UpdateSlice(
            whole.stream, kWeights,
            {.count = static_cast<int64_t>(size),
             .value = value.data() + first,
             .gradient = gradient.data() + first,
             .history = {first_slot.data() + first, second_slot.data() + first}},
            numbers);
      }
      EXPECT_EQ(value, whole.blob(kWeights).DataToHost(whole.stream)) << rule << ", step " << step;
      EXPECT_EQ(gradient, std::vector<double>(count)) << "not cleared";
    }
    EXPECT_EQ(first_slot, whole.updater->history()[0].DataToHost(whole.stream)) << rule;
  }
}

TEST(Updater, DividesSumsByWorkersAndPasses) {
  Updating run("type: 'SGD' iter_size: 2", {.workers = 4});
  const auto scale = [&](GradientsHold hold) {
    return run.updater->NumbersOf(run.stream, 0, 1, hold).scale;
  };
  EXPECT_EQ(scale(GradientsHold::kSumsOverWorkers), 1.0 / 8);
  EXPECT_EQ(scale(GradientsHold::kMeansOverWorkers), 1.0 / 2);
}

TEST(Updater, ClipsByTheNormOfAllGradients) {
  Updating run("type: 'SGD' clip_gradients: 1", {.workers = 2});
  std::vector<double> weights(35), bias(7);
  weights[3] = 6;  // sums over two workers: the norm of the mean is 5
  bias[2] = 8;
  run.blob(0).SetDiff(run.stream, weights);
  run.blob(1).SetDiff(run.stream, bias);
  const auto scale = [&](GradientsHold hold) {
    return run.updater->NumbersOf(run.stream, 0, 1, hold).scale;
  };
  EXPECT_DOUBLE_EQ(scale(GradientsHold::kSumsOverWorkers), 1.0 / 5 / 2);
  EXPECT_DOUBLE_EQ(scale(GradientsHold::kMeansOverWorkers), 1.0 / 10);
}

TEST(Updater, MultipliesRateAndDecayByTheParametersFactors) {
  Updating run("type: 'SGD' weight_decay: 0.5");
  run.blob(0).SetData(run.stream, std::vector<double>(35, 4));
  run.blob(1).SetData(run.stream, std::vector<double>(7, 4));
  const StepNumbers<double> numbers{.iteration = 0, .rate = 0.25};
  for (const int p : {0, 1}) {
    run.blob(p).SetDiff(run.stream,
                        std::vector<double>(static_cast<size_t>(run.blob(p).count()), 1));
    run.updater->Update(run.stream, p, numbers);
  }
  EXPECT_EQ(run.blob(0).DataToHost(run.stream)[0], 4 - 0.25 * (1 + 0.5 * 4));
  EXPECT_EQ(run.blob(1).DataToHost(run.stream)[0], 4 - 2 * 0.25 * 1);
}

}  // namespace
}  // namespace carafe
