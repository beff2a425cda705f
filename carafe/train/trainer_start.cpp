// The start of a run: build on every rank, begin with rank 0's values everywhere, say what is about
// to happen.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/train/algorithm_choice.h"
#include "carafe/train/same_facts.h"
#include "carafe/train/trainer.h"

namespace carafe {
namespace {

constexpr double kFirstBucketMb = 4;  // until the cost of a sum is measured

void CheckChoice(const char* flag, const std::string& value, const std::set<std::string>& choices) {
  if (choices.contains(value)) return;
  throw ConfigError(fmt::format("--{} is \"{}\"", flag, value),
                    fmt::format("use one of: {}", fmt::join(choices, ", ")));
}

void CheckTimeout(const std::string& name, double seconds) {
  constexpr double kDay = 86400;
  if (seconds <= kDay) return;  // false for what is not a number
  throw ConfigError(fmt::format("{} is {}", name, seconds),
                    "give seconds, at most those of a day; without it rank 0 waits for ever");
}

void CheckOptions(const TrainOptions& options, const SolverParameter& solver, int workers) {
  if (options.workers < 1 || options.workers > 4096)
    throw ConfigError(fmt::format("--workers is {}", options.workers), "use 1 or more");
  CheckChoice("algorithm of the sum", options.scheme.algorithm, {"auto", "owners", "halving"});
  if (options.scheme.branches < 1)
    throw ConfigError(fmt::format("--tree_branches is {}", options.scheme.branches),
                      "use 1 or more");
  CheckTimeout("exchange_timeout in the solver", solver.exchange_timeout());
  CheckTimeout("--exchange_timeout", options.exchange_timeout.value_or(-1));
  CheckChoice("lr_scaling", options.lr_scaling, {"none", "linear", "sqrt"});
  CheckChoice("on_nan", options.on_nan, {"stop", "continue"});
  if (!options.weights.empty() && !options.snapshot.empty()) {
    throw ConfigError("--weights and --snapshot are both given",
                      "use --snapshot to resume a run, --weights to start a new one from weights");
  }
  if (options.global_batch != 0 && options.global_batch < workers) {
    throw ConfigError(fmt::format("--global_batch={} leaves no row for some of {} workers",
                                  options.global_batch, workers),
                      "give at least one row per worker");
  }
  if (!(options.bucket_mb >= 0))
    throw ConfigError(fmt::format("--bucket_mb is {:g}", options.bucket_mb),
                      "give a size in MB, or 0 to have it measured");
  if (options.warmup < 0) throw ConfigError("--warmup is negative", "give a number of iterations");
}

}  // namespace

template <typename T>
Trainer<T>::Trainer(const SolverSpec& spec, const TrainOptions& options, Group& group,
                    Stream& stream)
    : options_(options), group_(group), stream_(stream) {
  // Every rank reads the same files, so most mistakes are everybody's: agree, and say it once.
  std::string error;
  try {
    CheckOptions(options, spec.param, workers());
    Build(spec);
    if (root()) LoadStart();
  } catch (const Error& failed) {
    if (group.size() == 1) throw;  // keeps its kind
    error = failed.what();
  }
  group_.Agree(error);
  CheckData();
  ShareStart();
  algorithms_ = MeasureForAll(group_, stream_, solver_->AllNets(), algorithms_);
  ScaleRate();
  solver_->Connect(exchange(), group_,
                   {.bucket_bytes = static_cast<size_t>(
                        (options_.bucket_mb > 0 ? options_.bucket_mb : kFirstBucketMb) * 1048576),
                    .overlap = options_.overlap.value_or(solver_->param().overlap()),
                    .scheme = Scheme()});
  start_iteration_ = displayed_at_ = solver_->iteration();
  error.clear();
  try {
    if (root() && options_.write_files) OpenFiles(start_iteration_ > 0);
  } catch (const Error& failed) {
    error = failed.what();
  }
  group_.Agree(error);
  const std::vector<RankFacts> ranks = GatherFacts(
      group_, MyFacts(group_, stream_,
                      options_.global_batch > 0 ? RowsOf(solver_->replica(), rows_) : FileBatch()));
  if (root()) {
    progress_ = std::make_unique<Progress>(options_.progress);
    PrintStart();
    PrintRanks(ranks);
  }
  if (options_.watch_signals) {
    signals_ =
        std::make_unique<SignalWatch>(ParseSignalEffect("sigint_effect", options_.sigint_effect),
                                      ParseSignalEffect("sighup_effect", options_.sighup_effect));
    group_.WatchForEnd(SignalWatch::asked_to_end());
  }
}

template <typename T>
void Trainer<T>::Build(const SolverSpec& spec) {
  SolverOptions solver_options;
  observer_ = std::make_unique<Observer>(options_.observe, group_, data_wait_);
  solver_options.trace = observer_.get();
  solver_options.keep_updates = options_.keep_updates;
  solver_options.share_memory = options_.share_memory;
  solver_options.level = options_.level;
  solver_options.stages = options_.stages;
  solver_options.workers = options_.workers;
  solver_options.replica = {.index = group_.rank() * options_.workers,
                            .count = workers(),
                            .global_batch = options_.global_batch};
  solver_options.sync_batch_norm = options_.sync_batch_norm.value_or(spec.param.sync_batch_norm());
  solver_options.seed = spec.param.random_seed() >= 0
                            ? static_cast<uint64_t>(spec.param.random_seed())
                            : std::random_device{}();  // rank 0's is everyone's, see ShareStart
  solver_ = std::make_unique<Solver<T>>(spec, stream_, solver_options);
  rows_ = options_.global_batch > 0 ? options_.global_batch : FileBatch() * workers();
}

template <typename T>
std::string Trainer<T>::exchange() const {
  return options_.exchange.empty() ? solver_->param().exchange() : options_.exchange;
}

template <typename T>
SchemeSettings Trainer<T>::Scheme() const {
  SchemeSettings scheme = options_.scheme;
  scheme.timeout = options_.exchange_timeout.value_or(solver_->param().exchange_timeout());
  return scheme;
}

// The rows that one worker's pass has by the file: the first axis of the first top.
template <typename T>
int64_t Trainer<T>::FileBatch() const {
  for (const auto& tops : solver_->net().tops()) {
    if (!tops.empty() && tops[0]->shape().rank() > 0) return tops[0]->shape()[0];
  }
  return 1;
}

template <typename T>
void Trainer<T>::LoadStart() {
  CheckSnapshotPossible(*solver_);
  std::string snapshot = options_.snapshot;
  if (snapshot == "auto") {
    snapshot = NewestSnapshot(solver_->param().snapshot_prefix());
    if (snapshot.empty()) LogInfo("--snapshot=auto: there is none yet, starting anew");
  }
  if (!snapshot.empty()) {
    LoadSnapshot(snapshot);
    return;
  }
  std::string weights = options_.weights;
  if (weights.empty()) {
    for (const std::string& path : solver_->param().weights()) weights += path + ",";
  }
  if (!weights.empty()) {
    LogInfo("Finetuning from {}", weights);
    LoadWeights(stream_, weights, solver_->net());
  }
}

template <typename T>
void Trainer<T>::LoadSnapshot(const std::string& snapshot) {
  LogInfo("Restoring previous solver status from {}", snapshot);
  const std::optional<CarafeState> state = ReadSnapshot(snapshot, *solver_);
  const int64_t passes = solver_->iteration() * solver_->param().iter_size();
  if (state) {
    solver_->set_seed(state->seed());
    solver_->set_sample_offset(state->samples_seen() - passes * rows_);
    tests_done_ = state->tests_done();
    const size_t first_line = state->plan().find('\n');
    algorithms_ = first_line == std::string::npos ? "" : state->plan().substr(first_line + 1);
  } else {
    solver_->set_sample_offset(-passes * rows_);  // Caffe's own file: the data start anew
    LogInfo("the state holds no data position (it is not Carafe's): the data start anew");
  }
  last_snapshot_ = solver_->iteration();
}

template <typename T>
void Trainer<T>::Restore(const std::string& snapshot) {
  solver_->Drain();
  std::string error;
  try {
    if (root()) LoadSnapshot(snapshot);
  } catch (const Error& failed) {
    if (group_.size() == 1) throw;  // keeps its kind
    error = failed.what();
  }
  group_.Agree(error);
  ShareStart();
  algorithms_ = MeasureForAll(group_, stream_, solver_->AllNets(), algorithms_);
  solver_->CopyRunningToWorkers();
  start_iteration_ = displayed_at_ = solver_->iteration();
  losses_.clear();
}

template <typename T>
void Trainer<T>::ShareStart() {
  int64_t numbers[] = {
      solver_->iteration(), static_cast<int64_t>(solver_->seed()),   solver_->sample_offset(),
      tests_done_,          solver_->learning_rate().current_step(), last_snapshot_};
  group_.Broadcast(numbers, sizeof numbers, 0, "the starting point");
  solver_->set_iteration(numbers[0]);
  solver_->set_seed(static_cast<uint64_t>(numbers[1]));
  solver_->set_sample_offset(numbers[2]);
  tests_done_ = numbers[3];
  solver_->learning_rate().set_current_step(static_cast<int>(numbers[4]));
  last_snapshot_ = numbers[5];
  if (group_.size() == 1) return;
  if (solver_->learning_rate().policy() == "plateau") {
    PlateauState plateau = solver_->learning_rate().plateau();
    int64_t state[] = {plateau.since, static_cast<int64_t>(plateau.losses.size())};
    group_.Broadcast(state, sizeof state, 0, "the plateau's state");
    plateau.since = state[0];
    plateau.losses.resize(static_cast<size_t>(state[1]));
    group_.Broadcast(&plateau.lowest, sizeof plateau.lowest, 0, "the plateau's state");
    group_.Broadcast(plateau.losses.data(), plateau.losses.size() * sizeof(double), 0,
                     "the plateau's state");
    solver_->learning_rate().set_plateau(std::move(plateau));
  }
  const auto share = [&](Blob<T>& blob, const std::string& what) {
    std::vector<T> values = blob.DataToHost(stream_);
    group_.Broadcast(values.data(), values.size() * sizeof(T), 0, what);
    if (!root()) blob.SetData(stream_, values);
  };
  for (const Param<T>& param : solver_->net().params()) share(*param.blob, "weights " + param.name);
  if (numbers[0] > 0) {
    for (Blob<T>& blob : solver_->history()) share(blob, "the solver's history");
  }
  CheckReplicas();
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
  std::string error;
  try {
    facts = DataFacts(solver_->net());
    for (const auto& net : solver_->test_nets()) {
      for (NamedFact& fact : DataFacts(*net)) {
        fact.name += " in the test net";
        facts.push_back(std::move(fact));
      }
    }
  } catch (const Error& failed) {
    error = failed.what();
  }
  group_.Agree(error);
  CheckSame(group_, facts, "copy the same data to every host, or name one copy that all can read");
}

template <typename T>
void Trainer<T>::PrintRanks(const std::vector<RankFacts>& ranks) {
  if (ranks.size() > 1) {
    for (const std::string& line : RankTable(ranks)) LogInfo("{}", line);
    LogInfo("exchange plan: {}", DescribeExchange(group_, exchange(), Scheme()));
  }
  const std::string advice = PinningAdvice(ranks, options_.pin);
  if (!advice.empty()) LogWarning("{}", advice);
}

template <typename T>
void Trainer<T>::ScaleRate() {
  const double growth = static_cast<double>(rows_) / static_cast<double>(FileBatch());
  const double scale = options_.lr_scaling == "linear" ? growth
                       : options_.lr_scaling == "sqrt" ? std::sqrt(growth)
                                                       : 1.0;
  solver_->learning_rate().SetScale(scale, options_.warmup);
}

template <typename T>
void Trainer<T>::OpenFiles(bool resumed) {
  const std::string& prefix = solver_->param().snapshot_prefix();
  if (options_.run_dir.empty()) {
    files_stem_ = prefix + "_";
  } else {
    std::error_code error;
    std::filesystem::create_directories(options_.run_dir, error);
    if (error) {
      throw ConfigError(
          fmt::format("--run_dir={} cannot be made: {}", options_.run_dir, error.message()),
          "choose another folder");
    }
    files_stem_ = options_.run_dir + "/";
  }
  metrics_ = std::make_unique<Metrics>(files_stem_ + "metrics.csv", resumed);
  SetLogFile(files_stem_ + "train.log");
  if (options_.quiet) SetLogToStderr(false);
}

template <typename T>
void Trainer<T>::PrintStart() {
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
      options_.lr_scaling == "none"
          ? "as written in the solver"
          : "scaled (" + options_.lr_scaling + ") by the growth of the batch");
  if (!files_stem_.empty())
    LogInfo("log and metrics: {}train.log, {}metrics.csv", files_stem_, files_stem_);
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
