// carafe test: scores a model; over several ranks the very digits of one.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/tester.h"
#include "tools/command.h"
#include "tools/ranks.h"
#include "tools/run_flags.h"

namespace carafe {
namespace {

struct TestFlags {
  std::string model, weights;
  int iterations = 50;
  RunFlags run;
};

void Print(const TestResult& result) {
  for (size_t b = 0; b < result.batches.size(); ++b) {
    for (size_t i = 0; i < result.scores.size(); ++i) {
      LogInfo("Batch {}, {} = {:g}", b, result.scores[i].blob, result.batches[b][i]);
    }
  }
  LogInfo("Loss: {:g}", result.loss);
  for (const Score& score : result.scores) {
    LogInfo("{} = {:g}{}", score.blob, score.value, LossPart(score));
  }
}

int Run(Group& group, const TestFlags& flags) {
  std::string error;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Net<float>> net;
  try {
    if (flags.iterations <= 0) {
      throw ConfigError(fmt::format("--iterations is {}", flags.iterations), "give at least 1");
    }
    stream = MakeStream(flags.run.gpu, false, ChooseThreads(flags.run.threads, group), group);
    const NetSpec spec = LoadNetSpec(flags.model);
    NetState state;
    state.set_phase(TEST);
    state.set_level(flags.run.level);
    for (const std::string& stage : flags.run.Stages()) state.add_stage(stage);
    net = std::make_unique<Net<float>>(spec, state);
    net->Initialise(*stream, 0);
    net->ShareMemory(MemorySharing::kForward, std::make_shared<MemoryPool>());
    LoadWeights(*stream, flags.weights, *net);
  } catch (const Error& failed) {
    error = failed.what();
  }
  group.Agree(error);
  const TestResult result =
      RunTest<float>(group, *stream, *net, 0, flags.iterations, [&](int64_t batch, int64_t stride) {
        RunContext run{.stream = *stream, .pass = {.index = batch, .stride = stride}};
        return net->Forward(run);
      });
  if (group.rank() == 0) Print(result);
  return 0;
}

int Test(const TestFlags& flags) {
  return RunOnRanks({}, [&](Group& group, KeptAlive&) { return Run(group, flags); });
}

const RegisterCommand kRegistered{
    {.name = "test",
     .summary = "Score a model.",
     .examples =
         "  carafe test --model=lenet_train_test.prototxt --weights=lenet_iter_10000.caffemodel "
         "--iterations=100",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<TestFlags>();
       app.add_option("--model", flags->model, "the net's prototxt")->required();
       app.add_option("--weights", flags->weights, "the .caffemodel")->required();
       app.add_option("--iterations", flags->iterations, "batches to run")->capture_default_str();
       flags->run.Declare(app);
       return [flags] { return Test(*flags); };
     }}};

}  // namespace
}  // namespace carafe
