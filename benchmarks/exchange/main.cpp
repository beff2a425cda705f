// exchange_bench: the exchange without the training. Run by benchmarks/exchange/run under mpirun:
//   exchange_bench sums                     the time of a sum over all ranks, by size
//   exchange_bench replay --profile=FILE    iterations whose layers sleep as long as they'd compute
//   exchange_bench profile --model=NET --output=FILE    measures those times, on one process
//   exchange_bench train --solver=FILE      iterations of a real net
#include <CLI/CLI.hpp>

#include "benchmarks/exchange/modes.h"
#include "carafe/base/error.h"
#include "carafe/comm/launcher.h"

namespace carafe {
namespace {

void AddScheme(CLI::App& app, std::string& exchange, SchemeSettings& scheme) {
  app.add_option("--exchange", exchange)->capture_default_str();
  app.add_option("--sum", scheme.algorithm)->capture_default_str();
  app.add_option("--message_bytes", scheme.message_bytes)->capture_default_str();
  app.add_option("--tree_branches", scheme.branches)->capture_default_str();
}

int Main(int argc, char** argv) {
  CLI::App app("The exchange without the training; see benchmarks/exchange/run.");
  app.require_subcommand(1);
  SumsOptions sums;
  CLI::App& sums_app = *app.add_subcommand("sums", "the time of a sum over all ranks, by size");
  AddScheme(sums_app, sums.exchange, sums.scheme);
  sums_app.add_option("--min_bytes", sums.min_bytes);
  sums_app.add_option("--max_bytes", sums.max_bytes);
  sums_app.add_option("--seconds", sums.seconds);
  ReplayOptions replay;
  CLI::App& replay_app = *app.add_subcommand("replay", "iterations whose layers are sleeps");
  AddScheme(replay_app, replay.exchange, replay.scheme);
  replay_app.add_option("--profile", replay.profile)->required();
  replay_app.add_option("--bucket_mb", replay.bucket_mb);
  replay_app.add_option("--steps", replay.steps);
  replay_app.add_option("--overlap", replay.overlap);
  TrainingOptions training;
  CLI::App& training_app = *app.add_subcommand("train", "iterations of a real net");
  AddScheme(training_app, training.exchange, training.scheme);
  training_app.add_option("--solver", training.solver)->required();
  training_app.add_option("--classes", training.classes);
  training_app.add_option("--overlap", training.overlap);
  training_app.add_option("--threads", training.threads);
  training_app.add_option("--seconds", training.seconds);
  training_app.add_flag("--alone", training.alone, "every rank for itself, all at the same time");
  std::string model, output;
  int threads = 1, iterations = 3;
  std::vector<int64_t> item;
  CLI::App& profile_app = *app.add_subcommand("profile", "measures how long layers compute");
  profile_app.add_option("--model", model)->required();
  profile_app.add_option("--output", output)->required();
  profile_app.add_option("--item", item, "channels,height,width")->delimiter(',');
  profile_app.add_option("--threads", threads);
  profile_app.add_option("--iterations", iterations);
  CLI11_PARSE(app, argc, argv);
  if (profile_app.parsed()) {
    WriteProfile(model, item, threads, iterations, output);
    return 0;
  }
  const std::unique_ptr<Group> group = StartGroup({.wait = 60});
  if (sums_app.parsed()) RunSums(*group, sums);
  if (replay_app.parsed()) RunReplay(*group, replay);
  if (training_app.parsed()) RunTraining(*group, training);
  return 0;
}

}  // namespace
}  // namespace carafe

int main(int argc, char** argv) {
  try {
    return carafe::Main(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
