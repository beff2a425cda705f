// carafe extract_features: what a trained net makes of its inputs, as databases of features.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/features.h"
#include "carafe/train/options.h"
#include "tools/command.h"
#include "tools/flags.h"

namespace carafe {
namespace {

struct FeatureFlags {
  std::string weights, net, blobs, databases, backend, mode = "CPU", device = "0";
  int64_t batches = 0;
  GivenOptions given;
};

const OptionTable<RunOptions>& FeatureTable() {
  static const OptionTable<RunOptions> table(
      {RunTable().row("threads"), RunTable().row("algorithm")});
  return table;
}

std::vector<FeatureTarget> TargetsOf(const FeatureFlags& flags) {
  const std::vector<std::string> blobs = SplitList(flags.blobs);
  const std::vector<std::string> databases = SplitList(flags.databases);
  if (blobs.empty() || blobs.size() != databases.size()) {
    throw ConfigError(fmt::format("{} blobs and {} databases", blobs.size(), databases.size()),
                      "give one database per blob, e.g. fc6,fc7 features_fc6,features_fc7");
  }
  std::vector<FeatureTarget> targets;
  for (size_t i = 0; i < blobs.size(); ++i) targets.push_back({blobs[i], databases[i]});
  return targets;
}

// "" for the CPU, else the GPU's number; Caffe's own help writes it as DEVICE_ID=0.
std::string GpuOf(const FeatureFlags& flags) {
  if (flags.mode == "CPU") return "";
  if (flags.mode != "GPU") {
    throw ConfigError(fmt::format("the device is \"{}\"", flags.mode), "use CPU or GPU");
  }
  const std::string name = "DEVICE_ID=";
  return flags.device.starts_with(name) ? flags.device.substr(name.size()) : flags.device;
}

int Extract(const FeatureFlags& flags) {
  if (flags.batches <= 0) {
    throw ConfigError(fmt::format("the number of batches is {}", flags.batches), "give at least 1");
  }
  const std::vector<FeatureTarget> targets = TargetsOf(flags);
  const RunOptions options =
      FeatureTable().Parse(WithEnvironment(FeatureTable().infos(), flags.given));
  const Group alone;
  const std::unique_ptr<Stream> stream =
      MakeStream(GpuOf(flags), false, ChooseThreads(options.threads, alone), alone);
  Net<float> net(LoadNetSpec(flags.net), StateOf(TEST, options),
                 AlgorithmChoices{.asked = options.algorithm});
  net.Initialise(*stream, 0);
  LoadWeights(*stream, flags.weights, net);
  const std::vector<int64_t> rows =
      ExtractFeatures(*stream, net, targets, flags.batches, flags.backend);
  for (size_t i = 0; i < targets.size(); ++i) {
    LogInfo("Extracted features of {} query images for feature blob {}", rows[i], targets[i].blob);
  }
  LogInfo("Successfully extracted the features!");
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "extract_features",
     .summary = "Write blobs of a trained net, row by row, to databases.",
     .examples =
         "  carafe extract_features lenet_iter_10000.caffemodel lenet_train_test.prototxt ip1,ip2 "
         "ip1_lmdb,ip2_lmdb 10 lmdb",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<FeatureFlags>();
       app.add_option("weights", flags->weights, "the .caffemodel")->required();
       app.add_option("net", flags->net, "prototxt with data layers, run in phase TEST")
           ->required();
       app.add_option("blobs", flags->blobs, "names of blobs, with commas")->required();
       app.add_option("databases", flags->databases, "one to write per blob, with commas")
           ->required();
       app.add_option("batches", flags->batches, "how many batches to run")->required();
       app.add_option("backend", flags->backend, "lmdb or leveldb")->required();
       app.add_option("mode", flags->mode, "CPU or GPU")->capture_default_str();
       app.add_option("device", flags->device, "number of the GPU")->capture_default_str();
       DeclareFlags(app, FeatureTable().infos(), &flags->given);
       return [flags] { return Extract(*flags); };
     }}};

}  // namespace
}  // namespace carafe
