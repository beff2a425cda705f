#include "carafe/train/forecast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/exchange/cost_model.h"
#include "carafe/exchange/layer_plan.h"

namespace carafe {
namespace {

constexpr int kSteps = 2;             // that are simulated and measured
constexpr int kStepsWithChance = 12;  // where stragglers are drawn at random
constexpr int64_t kLongestMessage = int64_t{1} << 20;
constexpr int kBranches = 2;  // of the tree's values

SimNet WithoutFactors(SimNet net) {
  for (SimParam& param : net.params) param.factors = {};
  return net;
}

// The choice of --exchange=auto at this number of ranks; the others are summed.
SimNet WithChosenFactors(const SimNet& net, const ForecastSettings& settings, int ranks) {
  std::vector<LayerSize> sizes;
  std::vector<int> of;
  StepModel model{.compute = net.ComputeSeconds(1), .dense_bytes = net.GradientBytes()};
  for (int p = 0; p < Count(net.params); ++p) {
    const FactorShape& factors = At(net.params, p).factors;
    if (factors.rows == 0) continue;
    sizes.push_back({.inputs = factors.b_width, .outputs = factors.a_width, .rows = factors.rows});
    of.push_back(p);
    model.dense_bytes -= At(net.params, p).count * int64_t{sizeof(float)};
  }
  const ClusterRates rates{
      .latency = settings.latency, .per_byte = 1 / settings.bandwidth, .flops = net.flops};
  const std::vector<bool> chosen = ChooseFactors(sizes, model, ranks, rates);
  SimNet result = net;
  for (size_t i = 0; i < of.size(); ++i)
    if (!chosen[i]) At(result.params, of[i]).factors = {};
  return result;
}

std::string PlanOf(const MachineProfile& profile, const SimNet& net) {
  LayerPlan plan;
  for (int l = 0; l < Count(net.layers); ++l)
    for (const int p : At(net.layers, l).params)
      if (At(net.params, p).factors.rows > 0 && !plan.Find(At(profile.layers, l).name))
        plan.layers.emplace_back(At(profile.layers, l).name, LayerScheme::kFactors);
  return plan.Text();
}

int64_t FactorBytes(const SimNet& net) {  // of one rank, to one other
  int64_t count = 0;
  for (const SimParam& param : net.params)
    count += param.factors.rows * (param.factors.a_width + param.factors.b_width);
  return count * int64_t{sizeof(float)};
}

int64_t DenseBytes(const SimNet& net) {
  int64_t count = 0;
  for (const SimParam& param : net.params)
    if (param.factors.rows == 0) count += param.count;
  return count * int64_t{sizeof(float)};
}

int Log2Up(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks) - 1)); }

// Bytes that the busiest rank sends in a step, by the formulas of docs/exchanges.md.
double ModelBytes(const SimNet& net, const std::string& exchange, int ranks) {
  const auto dense = static_cast<double>(DenseBytes(net));
  const double others = ranks - 1;
  if (exchange == "server") return dense * others;
  if (exchange == "tree") return dense * std::min(kBranches, ranks - 1);
  return 2 * dense * others / ranks + others * static_cast<double>(FactorBytes(net));
}

// Seconds of a step's transfers if nothing hides them. Rank 0 of server and tree receives as much
// as it is sent by others, then sends.
double ModelTransfers(const SimNet& net, const std::string& exchange, int ranks,
                      const ForecastSettings& settings) {
  constexpr double kBucket = 4 << 20;
  const auto dense = static_cast<double>(DenseBytes(net));
  const double hops = exchange == "ssp" ? 2 : 2.0 * Log2Up(ranks);
  double bytes = ModelBytes(net, exchange, ranks);
  if (exchange == "server") bytes += dense * (ranks - 1);
  if (exchange == "tree") bytes += dense * Log2Up(ranks);
  return bytes / settings.bandwidth + hops * settings.latency * (1 + std::floor(dense / kBucket));
}

// The mean over all ranks, and of the slowest of all ranks, where steps are drawn at random.
struct MeanSlowdown {
  double mean = 1, slowest = 1;
};
MeanSlowdown SlowdownOfAll(const std::vector<Stragglers>& slow, int ranks) {
  MeanSlowdown all;
  for (const Stragglers& some : slow) {
    const double share =
        some.ranks > 0 ? std::min(1.0, static_cast<double>(some.ranks) / ranks) : some.share;
    const double any = some.ranks > 0 ? 1 : 1 - std::pow(1 - some.share, ranks);
    all.mean *= 1 + share * (some.factor - 1);
    all.slowest *= 1 + any * (some.factor - 1);
  }
  return all;
}

class Forecaster {
 public:
  Forecaster(const MachineProfile& profile, const ForecastSettings& settings)
      : profile_(profile), settings_(settings), full_(SimNetOf(profile)) {
    forecast_.one_rank_seconds = WithoutFactors(full_).ComputeSeconds(1);
    forecast_.gradient_bytes = full_.GradientBytes();
  }

  Forecast Make() {
    for (const char* exchange : {"allreduce", "server", "tree", "ssp", "sfb", "auto"}) {
      last_ = {};
      for (int ranks = 1; ranks < settings_.ranks; ranks *= 2) AddRow(exchange, ranks);
      AddRow(exchange, settings_.ranks);
    }
    return forecast_;
  }

 private:
  // What the model continues: the last row that the engine made.
  struct Last {
    double hidden = 0;   // seconds of transfers
    double slowest = 1;  // MeanSlowdown
    bool known = false;
  };

  void AddRow(const std::string& exchange, int ranks) {
    ForecastRow row{.exchange = exchange, .ranks = ranks};
    if (ranks == 1) {
      row.step_seconds = forecast_.one_rank_seconds * SlowdownOfAll(settings_.slow, 1).mean;
      row.source = "profile";
      return Finish(row);
    }
    SimNet net = exchange == "sfb"    ? full_
                 : exchange == "auto" ? WithChosenFactors(full_, settings_, ranks)
                                      : WithoutFactors(full_);
    if (exchange == "auto") row.plan = PlanOf(profile_, net);
    const bool factors = FactorBytes(net) > 0;
    if (exchange == "auto" && (!factors || row.plan == PlanOf(profile_, full_))) {
      const ForecastRow& same = Find(factors ? "sfb" : "allreduce", ranks);
      row.step_seconds = same.step_seconds;
      row.exposed_seconds = same.exposed_seconds;
      row.bytes = same.bytes;
      row.source = same.source;
      return Finish(row);
    }
    if (const std::optional<SimCase> c = CaseFor(net, exchange, ranks)) {
      ByEngine(net, *c, &row);
    } else {
      ByModel(net, &row);
    }
    Finish(row);
  }
  void Finish(ForecastRow row) {
    row.efficiency = forecast_.one_rank_seconds / row.step_seconds;
    row.speed_up = row.ranks * row.efficiency;
    forecast_.rows.push_back(std::move(row));
  }
  const ForecastRow& Find(const std::string& exchange, int ranks) const {
    return *std::ranges::find_if(forecast_.rows, [&](const ForecastRow& row) {
      return row.exchange == exchange && row.ranks == ranks;
    });
  }

  // What the engine simulates: with messages that are so long that it is not too much. None if it
  // is.
  std::optional<SimCase> CaseFor(const SimNet& net, const std::string& exchange, int ranks) const {
    const bool by_chance =
        std::ranges::any_of(settings_.slow, [](const Stragglers& some) { return some.share > 0; });
    const bool own_scheme = exchange == "server" || exchange == "tree" || exchange == "ssp";
    SimCase c{.exchange = own_scheme ? exchange : "allreduce",
              .ranks = ranks,
              .staleness = exchange == "ssp" ? settings_.staleness : 0,
              .steps = by_chance ? kStepsWithChance : kSteps,
              .network = {.latency = settings_.latency, .bandwidth = settings_.bandwidth}};
    if (!settings_.slow.empty())
      c.slowdown = [this, ranks](int rank, int64_t step) {
        return SlowdownOf(settings_.slow, ranks, rank, step);
      };
    const int64_t most = settings_.most_messages * kSteps / c.steps;
    while (MessagesOfStep(net, c) > most) {
      if (c.least_message_bytes >= kLongestMessage) return std::nullopt;
      c.least_message_bytes = std::max<int64_t>(2 * c.least_message_bytes, kFirstMessageBytes);
    }
    return c;
  }

  void ByEngine(const SimNet& net, const SimCase& c, ForecastRow* row) {
    const SimOutcome outcome = SimulateTraining(net, c);
    row->step_seconds = outcome.step_seconds;
    row->exposed_seconds = std::max(0.0, outcome.step_seconds - outcome.compute_seconds);
    row->bytes = outcome.bytes;
    row->source = "engine";
    last_ = {.hidden = std::max(0.0, ModelTransfers(net, row->exchange, c.ranks, settings_) -
                                         row->exposed_seconds),
             .slowest = SlowdownOfAll(settings_.slow, c.ranks).slowest,
             .known = true};
  }
  // As much of the transfers is hidden as in the engine's last row; without one, what the passes
  // can hide.
  void ByModel(const SimNet& net, ForecastRow* row) {
    const MeanSlowdown slow = SlowdownOfAll(settings_.slow, row->ranks);
    const double compute = net.ComputeSeconds(row->ranks);
    const double transfers = ModelTransfers(net, row->exchange, row->ranks, settings_);
    const double hidden = last_.known ? last_.hidden : compute;
    row->exposed_seconds =
        std::max(0.0, transfers - hidden) +
        compute * (last_.known ? slow.slowest - last_.slowest : slow.slowest - slow.mean);
    row->step_seconds = compute * slow.mean + row->exposed_seconds;
    row->bytes = static_cast<int64_t>(ModelBytes(net, row->exchange, row->ranks));
    row->source = "model";
  }

  const MachineProfile& profile_;
  const ForecastSettings& settings_;
  const SimNet full_;
  Forecast forecast_;
  Last last_;
};

}  // namespace

Forecast MakeForecast(const MachineProfile& profile, const ForecastSettings& settings) {
  if (SimNetOf(profile).GradientBytes() == 0)
    throw ConfigError("the net learns nothing: it has nothing to exchange",
                      "give a net for training, with parameters whose lr_mult is not 0");
  return Forecaster(profile, settings).Make();
}

}  // namespace carafe
