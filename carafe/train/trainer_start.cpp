// The start of a run: build on every rank, begin with rank 0's values everywhere, say what is about
// to happen.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "carafe/base/log.h"
#include "carafe/core/row_share.h"
#include "carafe/exchange/wire_codec.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/fork_settings.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/training_state.h"
#include "carafe/train/auto_plan.h"
#include "carafe/train/layer_schemes.h"
#include "carafe/train/same_facts.h"
#include "carafe/train/trainer.h"

namespace carafe {
namespace {

constexpr double kFirstBucketMb = 4;  // until the cost of a sum is measured

// What the values of single options cannot show.
void CheckOptions(const TrainOptions& options, int workers) {
  if (options.weights && !options.snapshot.empty()) {
    throw ConfigError("--weights and --snapshot are both given",
                      "use --snapshot to resume a run, --weights to start a new one from weights");
  }
  if (options.global_batch != 0 && options.global_batch < workers) {
    throw ConfigError(fmt::format("--global_batch={} leaves no row for some of {} workers",
                                  options.global_batch, workers),
                      "give at least one row per worker");
  }
}

// `options` with the solver's values.
void CheckLocal(const TrainOptions& options) {
  if (*options.exchange == "local") return;
  const auto refuse = [&](const char* name) {
    throw ConfigError(
        fmt::format("--{} is for --exchange=local, not for {}", name, *options.exchange),
        "remove it, or use --exchange=local");
  };
  if (*options.local_steps != 1) refuse("local_steps");
  if (options.outer_lr != 1) refuse("outer_lr");
  if (options.outer_momentum != 0) refuse("outer_momentum");
}

// The codec that --wire names, for exchanges that can encode gradients.
std::unique_ptr<const Codec> MakeWire(const TrainOptions& options) {
  std::unique_ptr<const Codec> codec = MakeWireCodec(*options.wire);
  if (!codec) return codec;
  const carafe::Scheme* scheme = SchemeRegistry::Instance().Find(*options.exchange);
  if (!scheme || !scheme->encoded_sum)
    throw ConfigError(
        fmt::format("--wire={} is not for --exchange={}", *options.wire, *options.exchange),
        "use --exchange=allreduce, server or tree, or --wire=fp32");
  if (*options.exchange_timeout >= 0)
    throw ConfigError(fmt::format("--wire={} cannot encode gradients that may come too late, as "
                                  "--exchange_timeout permits",
                                  *options.wire),
                      "remove --exchange_timeout, or use --wire=fp32");
  return codec;
}

// NVCaffe's reduce_buckets is a number of buckets of equal size; 0: the file gives none.
template <typename T>
double BucketMbOfFile(const SolverSpec& spec, Solver<T>& solver) {
  const int buckets = ReduceBucketsOf(spec);
  if (buckets <= 0) return 0;
  double bytes = 0;
  for (const Param<T>& param : solver.net().params()) {
    bytes += static_cast<double>(param.blob->count()) * sizeof(T);
  }
  return bytes / buckets / 1048576;
}

}  // namespace

template <typename T>
Trainer<T>::Trainer(const SolverSpec& spec, const TrainOptions& options, Group& group,
                    Stream& stream, const std::vector<Stream*>& others)
    : group_(group), stream_(stream), other_streams_(others) {
  group_.Together("the nets and the starting point", [&] {
    options_ = WithSolver(options, spec);
    CheckOptions(options, workers());
    CheckLocal(options_);
    wire_ = MakeWire(options_);
    Build(spec);
    AskedPlan(options_, *solver_);  // checks it
    if (root()) LoadStart();
  });
  CheckData();
  ShareStart();
  ChooseAlgorithms();
  ScaleRate();
  LayerPlan plan = AskedPlan(options_, *solver_);
  if (*options_.exchange == "auto") plan = MakeAutoPlan(*solver_, group_, Scheme(), plan, &state_);
  if (options_.bucket_mb == 0) {
    options_.bucket_mb = BucketMbOfFile(spec, *solver_);
    if (root() && options_.bucket_mb > 0) {
      LogInfo("reduce_buckets of NVCaffe is read as --bucket_mb={:.3g}", options_.bucket_mb);
    }
  }
  solver_->Connect(*options_.exchange, group_,
                   {.bucket_bytes = static_cast<size_t>(
                        (options_.bucket_mb > 0 ? options_.bucket_mb : kFirstBucketMb) * 1048576),
                    .overlap = *options_.overlap,
                    .staleness = *options_.staleness,
                    .server = {.update = *options_.server_update,
                               .combine = options_.combine,
                               .consistency = options_.consistency,
                               .order = options_.send_order,
                               .bandwidth_mbps = options_.bandwidth_mbps},
                    .local_steps = *options_.exchange == "local" ? *options_.local_steps : 0,
                    .outer_rate = options_.outer_lr,
                    .outer_momentum = options_.outer_momentum,
                    .scheme = Scheme(),
                    .codec = wire_.get(),
                    .plan = plan});
  start_iteration_ = displayed_at_ = solver_->iteration();
  group_.OnRoot("the log file", [&] {
    if (options_.write_files) OpenFiles(start_iteration_ > 0);
  });
  if (!options_.net_outputs.empty())
    group_.Together("the files of --net_outputs", [&] {
      outputs_ = std::make_unique<NetOutputs>(options_.net_outputs, group_.rank(), group_.size(),
                                              solver_->test_nets().size());
    });
  RankFacts mine = MyFacts(group_, stream_, RowsOf(solver_->replica(), FileBatch(*solver_)));
  if (!other_streams_.empty()) mine.device += fmt::format(" and {} more", other_streams_.size());
  const std::vector<RankFacts> ranks = GatherFacts(group_, mine);
  if (root()) {
    progress_ = std::make_unique<Progress>(options_.progress);
    PrintStart(options);
    const std::string unused = UnusedSchemes(options_, *solver_);
    if (!unused.empty()) LogInfo("{}", unused);
    PrintRanks(ranks);
  }
  if (options_.watch_signals) {
    signals_ = std::make_unique<SignalWatch>(options_.sigint_effect, options_.sighup_effect);
    group_.WatchForEnd(SignalWatch::asked_to_end());
  }
}

template <typename T>
void Trainer<T>::Build(const SolverSpec& spec) {
  SolverOptions solver_options;
  observer_ =
      std::make_unique<Observer>(ObserveOptions{.trace = options_.trace,
                                                .trace_iterations = options_.trace_iterations,
                                                .stats = options_.stats,
                                                .stats_path = options_.stats_path},
                                 group_, [this] { return DataWait(); });
  solver_options.trace = observer_.get();
  solver_options.keep_updates = options_.keep_updates;
  solver_options.share_memory = options_.share_memory;
  solver_options.bad_loss =
      options_.on_nan == OnNan::kStop ? BadLoss::kDiscardStep : BadLoss::kUpdate;
  solver_options.level = options_.level;
  solver_options.stages = options_.stages;
  solver_options.workers = options_.workers;
  solver_options.other_streams = other_streams_;
  solver_options.replica = {.index = group_.rank() * options_.workers,
                            .count = workers(),
                            .global_batch = options_.global_batch};
  solver_options.sync_batch_norm = *options_.sync_batch_norm;
  solver_options.algorithms.asked = options_.algorithm;
  solver_options.seed = spec.param.random_seed() >= 0
                            ? static_cast<uint64_t>(spec.param.random_seed())
                            : std::random_device{}();  // rank 0's is everyone's, see ShareStart
  solver_ = std::make_unique<Solver<T>>(spec, stream_, solver_options);
  rows_ = GlobalBatch(*solver_);
}

template <typename T>
SchemeSettings Trainer<T>::Scheme() const {
  return {.message_bytes = static_cast<size_t>(options_.message_kb * 1024),
          .branches = options_.tree_branches,
          .algorithm = TrainTable().Get(options_, "sum"),
          .timeout = *options_.exchange_timeout};
}

template <typename T>
void Trainer<T>::LoadStart() {
  CheckSnapshotPossible(*solver_);
  if (options_.snapshot == "auto") {
    if (LoadNewestSnapshot()) return;
    LogInfo("--snapshot=auto: there is none yet, starting from the beginning");
  } else if (!options_.snapshot.empty()) {
    LoadSnapshot(options_.snapshot);
    return;
  }
  if (!options_.weights->empty()) {
    LogInfo("Finetuning from {}", *options_.weights);
    LoadWeights(stream_, *options_.weights, solver_->net());
  }
}

// Hosts may hold copies of nets and data of their own.
template <typename T>
void Trainer<T>::CheckData() {
  if (group_.size() == 1) return;
  std::vector<NamedFact> facts = {NetFact(solver_->net())};
  for (size_t i = 0; i < solver_->test_nets().size(); ++i) {
    facts.push_back(NetFact(*solver_->test_nets()[i]));
    facts.back().name += fmt::format(" #{}", i);
  }
  CheckSame(group_, facts, "give all hosts the same files");
  facts.clear();
  group_.Together("facts of the data", [&] {
    facts = DataFacts(solver_->net());
    for (const auto& net : solver_->test_nets()) {
      for (NamedFact& fact : DataFacts(*net)) {
        fact.name += " in the test net";
        facts.push_back(std::move(fact));
      }
    }
  });
  CheckSame(group_, facts, "copy the same data to every host, or name one copy that all can read");
}

template <typename T>
void Trainer<T>::PrintRanks(const std::vector<RankFacts>& ranks) {
  if (ranks.size() > 1) {
    for (const std::string& line : RankTable(ranks)) LogInfo("{}", line);
    LogInfo("exchange plan: {}", DescribeExchange(group_, *options_.exchange, Scheme()));
    if (wire_)
      LogInfo(
          "wire: gradients are sent as {} with error feedback, straight to the rank that adds them",
          wire_->name());
    const std::string layers = PlanText(*solver_);
    if (!layers.empty()) LogInfo("layers by factors or dense: --plan={}", layers);
  }
  const std::string advice = PinningAdvice(ranks, options_.pin);
  if (!advice.empty()) LogWarning("{}", advice);
}

template <typename T>
void Trainer<T>::ScaleRate() {
  const double growth = static_cast<double>(rows_) / static_cast<double>(FileBatch(*solver_));
  const double scale = options_.lr_scaling == LrScaling::kLinear ? growth
                       : options_.lr_scaling == LrScaling::kSqrt ? std::sqrt(growth)
                                                                 : 1.0;
  solver_->learning_rate().SetScale(scale, options_.warmup);
}

template <typename T>
void Trainer<T>::OpenFiles(bool resumed) {
  const bool beside_snapshots = options_.run_dir.empty();
  files_stem_ =
      beside_snapshots ? solver_->param().snapshot_prefix() + "_" : options_.run_dir + "/";
  const std::filesystem::path folder = std::filesystem::path(files_stem_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    throw ConfigError(
        fmt::format("the folder {} of {} cannot be made: {}", folder.string(),
                    beside_snapshots ? "snapshot_prefix" : "--run_dir", error.message()),
        "choose another folder");
  }
  metrics_ = std::make_unique<Metrics>(files_stem_ + "metrics.csv", resumed);
  if (solver_->param().snapshot() > 0 || solver_->param().snapshot_after_train())
    snapshot_lock_ = std::make_unique<SnapshotLock>(solver_->param().snapshot_prefix());
  SetLogFile(files_stem_ + "train.log");
  if (options_.quiet) SetLogToStderr(false);
}

template <typename T>
void Trainer<T>::PrintStart(const TrainOptions& asked) {
  LogInfo("options: {}", DescribeOptions(asked, options_));
  Net<T>& net = solver_->net();
  for (size_t l = 0; l < net.layers().size(); ++l) {
    std::string line =
        fmt::format("{} ({})", net.layers()[l]->name(), net.layers()[l]->spec().param().type());
    for (const int id : net.bottom_ids()[l]) {
      line += " <- " + net.blob_names()[static_cast<size_t>(id)];
    }
    for (const int id : net.top_ids()[l]) {
      line += fmt::format(" -> {}: {}", net.blob_names()[static_cast<size_t>(id)],
                          net.blobs()[static_cast<size_t>(id)]->shape().ToString());
    }
    LogInfo("{}", line);
  }
  int64_t count = 0;
  for (const Param<T>& param : net.params()) count += param.blob->count();
  LogInfo("{} parameters in {} blobs; seed {}", count, net.params().size(), solver_->seed());
  std::set<std::string> hosts;
  for (int r = 0; r < group_.size(); ++r) hosts.insert(group_.host(r));
  LogInfo(
      "{} worker{} on {} host{}, {} thread{} each; batch per worker {}{}, global batch {}, "
      "iter_size "
      "{}; lr {}",
      workers(), workers() == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s",
      stream_.threads(), stream_.threads() == 1 ? "" : "s", rows_ / workers(),
      rows_ % workers() != 0 ? " or one more" : "", rows_, solver_->param().iter_size(),
      options_.lr_scaling == LrScaling::kNone
          ? "as written in the solver"
          : fmt::format("scaled ({}) by the growth of the batch",
                        TrainTable().Get(options_, "lr_scaling")));
  if (!files_stem_.empty())
    LogInfo("log and metrics: {}train.log, {}metrics.csv", files_stem_, files_stem_);
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
