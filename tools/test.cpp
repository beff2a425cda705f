// carafe test: scores a model; several ranks print exactly what one prints.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/options.h"
#include "carafe/train/tester.h"
#include "tools/command.h"
#include "tools/ranks.h"

namespace carafe {
namespace {

struct TestOptions : RunOptions {
  std::string model, weights;
  int iterations = 50;
};

const OptionTable<TestOptions>& TestTable() {
  using O = TestOptions;
  static const OptionTable<O> table(
      {
          {{.name = "model", .section = "Model", .help = "the net's prototxt", .required = true},
           option::Text(&O::model)},
          {{.name = "weights", .section = "Model", .help = "the .caffemodel", .required = true},
           option::Text(&O::weights)},
          {{.name = "iterations", .section = "Model", .help = "batches to run"},
           option::Integer(&O::iterations, 1)},
      },
      RunTable());
  return table;
}

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

int TestOn(Group& group, const GivenOptions& given) {
  TestOptions options;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Net<float>> net;
  group.Together("the net and its weights", [&] {
    options = TestTable().Parse(given);
    stream = MakeStream(options.gpu, false, ChooseThreads(options.threads, group), group);
    net = std::make_unique<Net<float>>(LoadNetSpec(options.model), StateOf(TEST, options),
                                       AlgorithmChoices{.asked = options.algorithm});
    net->Initialise(*stream, 0);
    net->ShareMemory(MemorySharing::kForward, std::make_shared<MemoryPool>());
    LoadWeights(*stream, options.weights, *net);
  });
  const TestResult result = RunTest<float>(
      group, *stream, *net, 0, options.iterations, [&](int64_t batch, int64_t stride) {
        RunContext run{.stream = *stream, .pass = {.index = batch, .stride = stride}};
        return net->Forward(run);
      });
  if (group.rank() == 0) Print(result);
  return 0;
}

int Test(const GivenOptions& flags) {
  const GivenOptions given = WithEnvironment(TestTable().infos(), flags);
  return RunOnRanks({}, [&](Group& group, KeptAlive&) { return TestOn(group, given); });
}

const RegisterCommand kRegistered{
    {.name = "test",
     .summary = "Score a model.",
     .examples =
         "  carafe test --model=lenet_train_test.prototxt --weights=lenet_iter_10000.caffemodel "
         "--iterations=100",
     .options = [] { return TestTable().infos(); },
     .run = Test,
     .on_ranks = true}};

}  // namespace
}  // namespace carafe
