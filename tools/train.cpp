// carafe train
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "carafe/base/hash.h"
#include "carafe/base/log.h"
#include "carafe/train/device_choice.h"
#include "carafe/train/pinning.h"
#include "carafe/train/same_facts.h"
#include "carafe/train/trainer.h"
#include "tools/command.h"
#include "tools/ranks.h"
#include "tools/run_flags.h"

namespace carafe {
namespace {

struct TrainFlags {
  std::string solver;
  std::vector<NamedFact> given;  // flags as written
  RunFlags run;
  TrainOptions options;
  std::string overlap, batch_norm, pin;
  double message_kb = 0;
  double comm_timeout = 300;
};

void Declare(CLI::App& app, TrainFlags& flags) {
  TrainOptions& o = flags.options;
  app.add_option("--solver", flags.solver, "the solver's prototxt")->required();
  app.add_option("--snapshot", o.snapshot,
                 "resume from this .solverstate, or auto: the newest whole one");
  app.add_option("--weights", o.weights, "start from these .caffemodel files (with commas)");
  flags.run.Declare(app);
  app.add_option("--sigint_effect", o.sigint_effect, "on SIGINT: stop, snapshot or none")
      ->capture_default_str();
  app.add_option("--sighup_effect", o.sighup_effect, "on SIGHUP: stop, snapshot or none")
      ->capture_default_str();
  app.add_option("--global_batch", o.global_batch,
                 "rows of all workers together; default: the file's batch for each worker");
  app.add_option("--lr_scaling", o.lr_scaling, "none, linear or sqrt: by the growth of the batch")
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "iterations until the rate is full");
  app.add_option("--workers", o.workers,
                 "replicas of the net in this rank, each with --threads threads")
      ->capture_default_str();
  app.add_option("--pin", flags.pin,
                 "on or off: each rank keeps to its share of the cores that the launcher left the "
                 "host's ranks; default: off, for the ranks of two jobs on one host would be "
                 "pinned to the same cores");
  app.add_option(
      "--exchange", o.exchange,
      "how gradients travel: allreduce, server or tree; default: the solver's, allreduce");
  app.add_option("--exchange_timeout,--timeout", o.exchange_timeout,
                 "server: seconds that rank 0 waits for gradients; later ones count in the next "
                 "iteration; default: the solver's, for ever (negative)");
  app.add_option("--tree_branches", o.scheme.branches,
                 "of the tree that hands values out (--exchange=tree)")
      ->capture_default_str();
  app.add_option("--sum", o.scheme.algorithm,
                 "of --exchange=allreduce: auto, owners (straight) or halving (and doubling)")
      ->capture_default_str();
  app.add_option("--message_kb", flags.message_kb,
                 "longest message between ranks, in KB; 0: by measurement")
      ->capture_default_str();
  app.add_option("--batch_norm", flags.batch_norm,
                 "local (each worker its own batch) or sync (one batch of all); default: the "
                 "solver's, local");
  app.add_option("--bucket_mb", o.bucket_mb,
                 "gradients that travel together, in MB; 0: by measurement")
      ->capture_default_str();
  app.add_option(
      "--overlap", flags.overlap,
      "on or off: gradients travel while the backward pass runs; default: the solver's, on");
  app.add_option("--check_replicas", o.check_replicas,
                 "iterations between comparisons of the ranks' weights; 0: never")
      ->capture_default_str();
  app.add_option("--on_nan", o.on_nan, "a loss that is NaN or infinite: stop or continue")
      ->capture_default_str();
  app.add_option("--comm_timeout", flags.comm_timeout, "seconds to wait for another rank")
      ->capture_default_str();
  app.add_option("--run_dir", o.run_dir,
                 "folder for train.log and metrics.csv; default: beside the snapshots");
  o.progress = "auto";
  app.add_option("--progress", o.progress, "live line: auto (on a terminal), bar or none")
      ->capture_default_str();
  app.add_option("--trace", o.observe.trace,
                 "write what every rank did and when, as JSON for ui.perfetto.dev");
  app.add_option("--trace_iterations", o.observe.trace_iterations,
                 "A:B, iterations from A on and before B; default: from the start, as many as fit");
  app.add_option("--stats", o.observe.stats,
                 "write where each iteration's time went, rank by rank, as CSV");
  app.add_flag("--quiet", o.quiet, "log lines to the file only");
}

// Whether the flag has the first of two words; nothing where it is not given.
std::optional<bool> Choice(const char* flag, const std::string& value, const std::string& yes,
                           const std::string& no) {
  if (value.empty()) return std::nullopt;
  if (value != yes && value != no)
    throw ConfigError(fmt::format("--{} is \"{}\"", flag, value),
                      fmt::format("use {} or {}", yes, no));
  return value == yes;
}

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
std::vector<NamedFact> FlagsThatMustAgree(const CLI::App& app) {
  std::vector<NamedFact> facts;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = "--" + option->get_lnames().at(0);
    if (name == "--gpu" || name == "--threads" || name == "--help") continue;
    facts.push_back({name, fmt::format("{}", fmt::join(option->results(), " "))});
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

int Run(Group& group, KeptAlive& kept, const TrainFlags& flags) {
  TrainOptions options = flags.options;
  options.level = flags.run.level;
  options.stages = flags.run.Stages();
  CheckSame(group, flags.given, "only --gpu and --threads may differ between ranks");
  options.pin = flags.pin == "on";
  if (options.pin) PinRanks(group);  // before any thread of a worker or a reader
  std::string error;
  SolverSpec spec;
  std::unique_ptr<Stream> stream;
  try {
    Choice("pin", flags.pin, "on", "off");
    options.overlap = Choice("overlap", flags.overlap, "on", "off");
    options.sync_batch_norm = Choice("batch_norm", flags.batch_norm, "sync", "local");
    if (!(flags.message_kb == 0 || (flags.message_kb >= 1 && flags.message_kb <= 65536)))
      throw ConfigError(fmt::format("--message_kb is {:g}", flags.message_kb),
                        "use 1 to 65536, or 0 to have it measured");
    options.scheme.message_bytes = static_cast<size_t>(flags.message_kb * 1024);
    spec = LoadSolverSpec(flags.solver);
    const bool file_wants_gpu =
        spec.param.has_solver_mode() && spec.param.solver_mode() == SolverParameter::GPU;
    stream = MakeStream(flags.run.gpu, file_wants_gpu,
                        ChooseThreads(flags.run.threads, group, options.workers), group);
  } catch (const Error& failed) {
    error = failed.what();
  }
  group.Agree(error);
  CheckSame(group, {ContentOf(flags.solver, spec.param)}, "give all hosts the same file");
  WarnOfShortKillTimeout(group);
  SetLogNeverBlocks(group.size() > 1);
  auto& lasting = kept.Make<std::unique_ptr<Stream>>(std::move(stream));
  auto& trainer = kept.Make<Trainer<float>>(spec, options, group, *lasting);
  return trainer.Run() == TrainEnd::kTerminated ? 75 : 0;
}

const RegisterCommand kRegistered{
    {.name = "train",
     .summary = "Train or fine-tune a net.",
     .examples = "  carafe train --solver=examples/mnist/lenet_solver.prototxt\n"
                 "  mpirun -n 2 carafe train --solver=solver.prototxt --snapshot=auto\n"
                 "  carafe train -solver solver.prototxt -weights base.caffemodel",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<TrainFlags>();
       Declare(app, *flags);
       return [flags, &app] {
         flags->given = FlagsThatMustAgree(app);
         return RunOnRanks({.wait = flags->comm_timeout},
                           [&](Group& group, KeptAlive& kept) { return Run(group, kept, *flags); });
       };
     }}};

}  // namespace
}  // namespace carafe
