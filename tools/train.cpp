// carafe train
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "carafe/base/hash.h"
#include "carafe/base/log.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/options.h"
#include "carafe/train/pinning.h"
#include "carafe/train/pmls_flags.h"
#include "carafe/train/same_facts.h"
#include "carafe/train/trainer.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/pmls_flags.h"
#include "tools/ranks.h"

namespace carafe {
namespace {

// Open MPI kills ranks 1 s after Ctrl-C, which may be too soon for a snapshot.
void WarnOfShortKillTimeout(const Group& group) {
  if (group.size() == 1 || group.rank() != 0 || std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr)
    return;
  const char* timeout = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  if (timeout != nullptr && std::atoi(timeout) >= 5) return;
  LogWarning(
      "Ctrl-C on mpirun leaves ranks 1 s to end the iteration and write a snapshot: export "
      "OMPI_MCA_odls_base_sigkill_timeout=10 gives them 10 s");
}

// mpirun can give every rank a command line of its own (mpirun -n 1 ... : -n 1 ...): only what
// concerns its own machine may differ.
std::vector<NamedFact> OptionsThatMustAgree(const GivenOptions& given,
                                            const TrainOptions& options) {
  std::vector<NamedFact> facts;
  for (const auto& row : TrainTable().rows()) {
    if (!row.info.ranks_may_differ && given.contains(row.info.name))
      facts.push_back({"--" + row.info.name, row.value.Get(options).value_or("")});
  }
  return facts;
}

NamedFact ContentOf(const std::string& path, SolverParameter solver) {
  solver.clear_device_id();
  solver.clear_solver_mode();
  const std::string bytes = solver.SerializeAsString();
  return {"the content of " + path,
          fmt::format("hash {:016x}", Hash64(bytes.data(), bytes.size(), 0))};
}

// What the flags of PMLS-Caffe became is the start of the log.
GivenOptions WithoutPmlsFlags(const GivenOptions& given, const Group& group) {
  PmlsResult result = TranslatePmlsFlags(
      given, {.rank = group.rank(), .size = group.size(), .options = TrainInfos()});
  if (group.rank() == 0)
    for (const std::string& note : result.notes) LogInfo("{}", note);
  return std::move(result.given);
}

int TrainOn(Group& group, KeptAlive& kept, GivenOptions given) {
  TrainOptions options;
  group.Together("the flags", [&] {
    given = WithoutPmlsFlags(given, group);
    options = TrainTable().Parse(given);
  });
  CheckSame(group, OptionsThatMustAgree(given, options),
            fmt::format("only {} may differ between ranks", FlagsThatMayDiffer(TrainInfos())));
  if (options.pin) PinRanks(group);  // before any thread of a worker or a reader
  SolverSpec spec;
  WorkerStreams streams;
  group.Together("the solver file", [&] {
    spec = LoadSolverSpec(options.solver);
    const bool file_wants_gpu =
        spec.param.has_solver_mode() && spec.param.solver_mode() == SolverParameter::GPU;
    streams =
        MakeWorkerStreams(options.gpu, file_wants_gpu, options.workers, options.threads, group);
    options.workers = streams.workers;
  });
  CheckSame(group, {{"the number of a rank's workers", std::to_string(options.workers)}},
            "let --gpu name as many GPUs for each rank");
  CheckSame(group, {ContentOf(options.solver, spec.param)}, "give all hosts the same file");
  WarnOfShortKillTimeout(group);
  SetLogNeverBlocks(group.size() > 1);
  auto& lasting = kept.Make<WorkerStreams>(std::move(streams));
  auto& trainer =
      kept.Make<Trainer<float>>(spec, options, group, *lasting.of_gpus.front(), lasting.others());
  return trainer.Run() == TrainEnd::kTerminated ? 75 : 0;
}

// The ranks connect before they check flags, so that a mistake is reported once. A bad timeout is
// one of the mistakes.
double ConnectTimeout(const GivenOptions& given) {
  TrainOptions options;
  try {
    const auto& row = TrainTable().row("comm_timeout");
    const auto found = given.find(row.info.name);
    if (found != given.end()) row.value.Set(options, found->second, "--comm_timeout");
  } catch (const ConfigError&) {
    return TrainOptions().comm_timeout;  // TrainOn reports it
  }
  return options.comm_timeout;
}

int Train(const GivenOptions& flags) {
  // `carafe train 2>&1 | head` must not end a run without its snapshots.
  std::signal(SIGPIPE, SIG_IGN);
  const GivenOptions given = WithEnvironment(TrainInfos(), flags);
  return RunOnRanks({.wait = ConnectTimeout(given)},
                    [&](Group& group, KeptAlive& kept) { return TrainOn(group, kept, given); });
}

const RegisterCommand kRegistered{
    {.name = "train",
     .summary = "Train or fine-tune a net.",
     .examples = "  carafe train --solver=examples/mnist/lenet_solver.prototxt\n"
                 "  mpirun -n 2 carafe train --solver=solver.prototxt --snapshot=auto\n"
                 "  carafe train -solver solver.prototxt -weights base.caffemodel",
     .prepare =
         [](CLI::App& app) {
           const auto given = std::make_shared<GivenOptions>();
           DeclareFlags(app, TrainInfos(), given.get());
           DeclarePmlsFlags(app, given.get());
           return [given] { return Train(*given); };
         },
     .options = TrainInfos,
     .on_ranks = true}};

}  // namespace
}  // namespace carafe
