#include "carafe/train/options.h"

#include <fmt/format.h>

#include <cmath>

#include "carafe/exchange/exchange_registry.h"
#include "carafe/kernels/convolution_algorithms.h"

namespace carafe {
namespace {

constexpr double kDay = 86400;  // seconds
constexpr int kMostStaleness = 1000;
constexpr WeightEffect kMayChange = WeightEffect::kMayChange;

std::vector<std::string> ExchangeNames() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : ExchangeRegistry::Instance().entries()) {
    if (kind.listed) names.push_back(name);
  }
  return names;
}

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names = SplitList(AlgorithmChoices::Names());
  for (std::string& name : names) name.erase(0, name.find_first_not_of(' '));
  return names;
}

// The value that the solver's file gives or leaves at its default, as an option's text.
std::string SolverText(const SolverParameter& solver, const OptionInfo& info) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = solver.GetReflection();
  const FieldDescriptor* field = solver.GetDescriptor()->FindFieldByName(info.solver_field);
  Ensure(field != nullptr, "an option names a field that SolverParameter does not have");
  if (field->is_repeated()) {
    std::vector<std::string> parts;
    for (int i = 0; i < reflection->FieldSize(solver, field); ++i)
      parts.push_back(reflection->GetRepeatedString(solver, field, i));
    return JoinList(parts);
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(solver, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return info.domain.choices().at(reflection->GetBool(solver, field) ? 1 : 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return OptionText(reflection->GetDouble(solver, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format("{}", reflection->GetInt32(solver, field));
    default:
      throw InternalError("an option from a solver field of a type that is not supported");
  }
}

}  // namespace

const OptionTable<RunOptions>& RunTable() {
  using O = RunOptions;
  static const OptionTable<O> table({
      {{.name = "gpu",
        .section = "Device",
        .help = "GPUs of this host, divided among its ranks: numbers with commas, or all; or auto, "
                "one per rank (auto-N: the rank modulo N)",
        .default_text = "the CPU, unless the solver says solver_mode: GPU",
        .ranks_may_differ = true,
        .weights = kMayChange},
       option::Text(&O::gpu)},
      {{.name = "threads",
        .section = "Device",
        .help = "threads per worker",
        .default_text = "OMP_NUM_THREADS, or the host's cores shared by its ranks and workers",
        .ranks_may_differ = true},
       option::Integer(&O::threads, 1, kMostThreads)},
      {{.name = "algorithm",
        .section = "Device",
        .help = "convolutions on CPUs: chosen by a rule (auto), by timing at the start (measure), "
                "or this one wherever it exists",
        .environment = "CARAFE_ALGORITHM",
        .weights = kMayChange},
       option::Name(&O::algorithm, AlgorithmNames)},
      {{.name = "level",
        .section = "Net",
        .help = "net level, for layers with min_level or max_level",
        .weights = kMayChange,
        .samples = {"0", "1"}},
       option::Integer(&O::level, INT32_MIN)},
      {{.name = "stage",
        .section = "Net",
        .help = "net stages, with commas",
        .weights = kMayChange,
        .samples = {"a", "a,b"}},
       option::List(&O::stages)},
  });
  return table;
}

const OptionTable<TrainOptions>& TrainTable() {
  using O = TrainOptions;
  static const OptionTable<O> table(
      {
          {{.name = "solver",
            .section = "Start",
            .help = "the solver's prototxt",
            .required = true},
           option::Text(&O::solver)},
          {{.name = "snapshot",
            .section = "Start",
            .help = "resume from this .solverstate; auto: from the newest whole one, if any",
            .weights = kMayChange,
            .samples = {"auto"}},
           option::Text(&O::snapshot)},
          {{.name = "weights",
            .section = "Start",
            .help = "start from these .caffemodel files, with commas",
            .solver_field = "weights",
            .weights = kMayChange,
            .samples = {"start.caffemodel"}},
           option::Text(&O::weights)},

          {{.name = "workers",
            .section = "Workers and batch",
            .help = "replicas of the net in each rank, each with --threads threads",
            .weights = kMayChange},
           option::Integer(&O::workers, 1, 4096)},
          {{.name = "global_batch",
            .section = "Workers and batch",
            .help = "rows of all workers together; 0: the file's batch for each worker",
            .weights = kMayChange,
            .samples = {"0", "24"}},
           option::Integer(&O::global_batch, 0)},
          {{.name = "lr_scaling",
            .section = "Workers and batch",
            .help = "multiplies the learning rate by the growth of the batch, or its root",
            .weights = kMayChange},
           option::Choice(&O::lr_scaling, {"none", "linear", "sqrt"})},
          {{.name = "warmup",
            .section = "Workers and batch",
            .help = "iterations over which the learning rate rises to its full value",
            .weights = kMayChange,
            .samples = {"0", "3"}},
           option::Integer(&O::warmup, 0)},
          {{.name = "batch_norm",
            .section = "Workers and batch",
            .help = "statistics of each worker's own batch, or of the batch of all workers",
            .solver_field = "sync_batch_norm",
            .weights = kMayChange},
           option::Choice(&O::sync_batch_norm, {"local", "sync"})},
          {{.name = "pin",
            .section = "Workers and batch",
            .help = "each rank keeps to its share of the host's cores. With two jobs on one host, "
                    "both would use the same cores"},
           option::Choice(&O::pin, {"off", "on"})},

          {{.name = "exchange",
            .section = "Exchange",
            .help = "how gradients and weights are exchanged",
            .solver_field = "exchange"},
           option::Name(&O::exchange, ExchangeNames)},
          {{.name = "plan",
            .section = "Exchange",
            .help = "sfb, auto: schemes of single layers, LAYER:dense or LAYER:sfb, with commas; "
                    "the log "
                    "prints the plan of a run in this form",
            .weights = kMayChange,
            .samples = {"ip:dense"}},
           option::Text(&O::plan)},
          {{.name = "exchange_timeout",
            .aliases = {"timeout"},
            .section = "Exchange",
            .help = "server: seconds that rank 0 waits for the gradients of the others; later ones "
                    "count in the next iteration",
            .solver_field = "exchange_timeout",
            .weights = kMayChange,
            .samples = {"-1", "60"}},
           option::Number(&O::exchange_timeout, 0, kDay)
               .Or(-INFINITY, 0,
                   "a negative number to wait "
                   "forever")},
          {{.name = "staleness",
            .section = "Exchange",
            .help = "ssp: iterations by which the weights of a forward pass may lag behind; 0: as "
                    "allreduce",
            .solver_field = "staleness",
            .weights = kMayChange,
            .samples = {"0", "2"}},
           option::Integer(&O::staleness, 0, kMostStaleness)},
          {{.name = "server_update",
            .section = "Exchange",
            .help = "ssp: owners apply each iteration once all gradients are there (clock), or "
                    "every rank updates by itself and owners add its change when it arrives",
            .solver_field = "server_update",
            .weights = kMayChange},
           option::Choice(&O::server_update, {"clock", "arrival"})},
          {{.name = "combine",
            .section = "Exchange",
            .help = "ssp with --server_update=arrival: the mean of the ranks' changes, or their "
                    "sum, as in PMLS",
            .weights = kMayChange},
           option::Choice(&O::combine, {"mean", "sum"})},
          {{.name = "consistency",
            .section = "Exchange",
            .help = "ssp: values and updates are sent as soon as they are there (ssppush), or "
                    "within --bandwidth_mbps in the order of --send_order (sspaggr)"},
           option::Choice(&O::consistency, {"ssppush", "sspaggr"})},
          {{.name = "bandwidth_mbps",
            .section = "Exchange",
            .help = "sspaggr: what a rank may send, in 10^6 bits per second; 0: no limit",
            .samples = {"0", "500"}},
           option::Number(&O::bandwidth_mbps, 0.001, 1e6).Or(0, 0, "0 for no limit")},
          {{.name = "send_order",
            .section = "Exchange",
            .help = "sspaggr: which updates leave first: the oldest, any, the largest relative to "
                    "their values, or the oldest iteration's largest"},
           option::Choice(&O::send_order,
                          {"fifo", "random", "relative_magnitude", "fifo_n_remag"})},
          {{.name = "local_steps",
            .section = "Exchange",
            .help = "local: iterations that each rank trains alone, before the mean of the changes "
                    "is taken",
            .solver_field = "local_steps",
            .weights = kMayChange,
            .samples = {"1", "2"}},
           option::Integer(&O::local_steps, 1)},
          {{.name = "outer_lr",
            .section = "Exchange",
            .help = "local: learning rate of the step that the mean change makes",
            .weights = kMayChange,
            .samples = {"1", "0.7"}},
           option::Number(&O::outer_lr, 1e-6, 1000)},
          {{.name = "outer_momentum",
            .section = "Exchange",
            .help = "local: Nesterov momentum of that step",
            .weights = kMayChange,
            .samples = {"0", "0.9"}},
           option::Number(&O::outer_momentum, 0, 0.999999)},
          {{.name = "tree_branches",
            .section = "Exchange",
            .help = "tree: children of each rank of the tree that distributes the weights",
            .samples = {"1", "3"}},
           option::Integer(&O::tree_branches, 1)},
          {{.name = "sum",
            .section = "Exchange",
            .help = "allreduce: every rank sums its part (owners), or halving and doubling"},
           option::Choice(&O::sum, {"auto", "owners", "halving"})},
          {{.name = "wire",
            .section = "Exchange",
            .help =
                "gradients between ranks: fp32, bf16, fp16, or topk:R, of each message the share "
                "R that is largest in magnitude. What is lost is sent in later steps",
            .solver_field = "wire",
            .weights = kMayChange,
            .samples = {"bf16", "fp16"}},
           option::Text(&O::wire)},
          {{.name = "message_kb",
            .section = "Exchange",
            .help = "longest message between ranks, in KB",
            .samples = {"0", "1"}},
           option::Number(&O::message_kb, 1, 65536).Or(0, 0, "0 to measure it")},
          {{.name = "bucket_mb",
            .section = "Exchange",
            .help = "gradients that are exchanged together, in MB; 0: by measurement",
            .samples = {"0", "0.001"}},
           option::Number(&O::bucket_mb, 0, 1048576)},
          {{.name = "overlap",
            .section = "Exchange",
            .help = "gradients are exchanged while the backward pass runs",
            .solver_field = "overlap"},
           option::Choice(&O::overlap, {"off", "on"})},

          {{.name = "check_replicas",
            .section = "Safety",
            .help = "iterations between comparisons of the ranks' weights; 0: never",
            .samples = {"0", "2"}},
           option::Integer(&O::check_replicas, 0)},
          {{.name = "on_nan",
            .section = "Safety",
            .help = "what to do if the loss is NaN or infinite"},
           option::Choice(&O::on_nan, {"stop", "continue"})},
          {{.name = "comm_timeout",
            .section = "Safety",
            .help = "seconds to wait for another rank",
            .samples = {"60"}},
           option::Number(&O::comm_timeout, 0.1, kDay)},
          {{.name = "keep",
            .section = "Safety",
            .help = "newest snapshots of the prefix that stay, older ones are removed; 0: all",
            .samples = {"0", "1"}},
           option::Integer(&O::keep, 0)},
          {{.name = "keep_every",
            .section = "Safety",
            .help = "with --keep, snapshots of iterations that are multiples of this stay, too; 0: "
                    "none",
            .samples = {"0", "2"}},
           option::Integer(&O::keep_every, 0)},
          {{.name = "sigint_effect",
            .section = "Safety",
            .help = "what SIGINT does, at the end of the iteration"},
           option::Choice(&O::sigint_effect, {"none", "stop", "snapshot"})},
          {{.name = "sighup_effect",
            .section = "Safety",
            .help = "what SIGHUP does, at the end of the iteration"},
           option::Choice(&O::sighup_effect, {"none", "stop", "snapshot"})},

          {{.name = "run_dir",
            .section = "Log",
            .help = "folder for train.log and metrics.csv",
            .default_text = "beside the snapshots",
            .samples = {"run"}},
           option::Text(&O::run_dir)},
          {{.name = "progress",
            .section = "Log",
            .help = "live line: on a terminal (auto), always (bar), or never"},
           option::Choice(&O::progress, {"auto", "bar", "none"}).Synonym("plain", "none")},
          {{.name = "trace",
            .section = "Log",
            .help = "write what every rank did and when, as JSON for ui.perfetto.dev",
            .samples = {"trace.json"}},
           option::Text(&O::trace)},
          {{.name = "trace_iterations",
            .section = "Log",
            .help = "A:B, iterations from A on and before B",
            .default_text = "from the start, as many as fit",
            .samples = {"1:3"}},
           option::Text(&O::trace_iterations)},
          {{.name = "stats",
            .section = "Log",
            .help = "write where each iteration's time went, rank by rank, as CSV",
            .samples = {"stats.csv"}},
           option::Text(&O::stats)},
          {{.name = "stats_path",
            .section = "Log",
            .help = "write sums of times and bytes as PMLS-Caffe did: YAML, PATH.R for rank R",
            .samples = {"stats.yaml"}},
           option::Text(&O::stats_path)},
          {{.name = "net_outputs",
            .section = "Log",
            .help = "write losses and outputs as PMLS-Caffe did: CSV, PREFIX.netoutputs for all "
                    "workers, and PREFIX.netoutputs.R for those of rank R",
            .samples = {"outputs"}},
           option::Text(&O::net_outputs)},
          {{.name = "quiet", .section = "Log", .help = "log lines go to the file only"},
           option::Switch(&O::quiet)},
      },
      RunTable());
  return table;
}

std::vector<OptionInfo> TrainInfos() {
  std::vector<OptionInfo> infos = TrainTable().infos();
  for (OptionInfo& info : infos) {
    if (!info.solver_field.empty())
      info.default_text = SolverText(SolverParameter::default_instance(), info);
  }
  return infos;
}

RunOptions RunOptionsFromEnvironment() {
  return RunTable().Parse(WithEnvironment(RunTable().infos(), {}));
}

TrainOptions WithSolver(TrainOptions options, const SolverSpec& spec) {
  TrainTable().Check(options);
  for (const auto& row : TrainTable().rows()) {
    const std::string& field = row.info.solver_field;
    if (field.empty() || row.value.Get(options)) continue;
    row.value.Set(options, SolverText(spec.param, row.info), field, spec.place.Find(field));
  }
  return options;
}

std::string DescribeOptions(const TrainOptions& asked, const TrainOptions& resolved) {
  static const TrainOptions defaults = WithSolver({}, {});
  std::string text;
  for (const auto& row : TrainTable().rows()) {
    const auto value = row.value.Get(resolved);
    if (value == row.value.Get(defaults)) continue;
    text += fmt::format("{}--{}={}{}", text.empty() ? "" : ", ", row.info.name, value.value_or(""),
                        row.value.Get(asked) ? "" : " (solver)");
  }
  return text.empty() ? "all at their defaults" : text;
}

NetState StateOf(Phase phase, const RunOptions& options) {
  NetState state;
  state.set_phase(phase);
  state.set_level(options.level);
  for (const std::string& stage : options.stages) state.add_stage(stage);
  return state;
}

}  // namespace carafe
