#include "carafe/train/auto_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/core/row_share.h"
#include "carafe/exchange/cost_model.h"
#include "carafe/exchange/measure_rates.h"
#include "carafe/solvers/factor_offers.h"

namespace carafe {
namespace {

// A layer that has factors.
struct Candidate {
  std::string name;
  LayerSize size;
};

template <typename T>
std::vector<Candidate> CandidatesOf(Solver<T>& solver) {
  std::vector<Candidate> candidates;
  for (int p = 0; p < Count(solver.net().params()); ++p) {
    int64_t rows = 0;
    for (const std::vector<int64_t>& of_worker : solver.factor_rows()) rows += At(of_worker, p);
    if (rows == 0) continue;
    const Shape& shape = At(solver.net().params(), p).blob->shape();
    candidates.push_back({LayerOf(solver.net(), p),
                          {.inputs = shape.Count(1),
                           .outputs = shape[0],
                           .rows = rows,
                           .element_bytes = int64_t{sizeof(T)}}});
  }
  return candidates;
}

// Passes take three times as many products as a forward pass; all other parameters are summed.
template <typename T>
StepModel ModelOf(Solver<T>& solver, const std::vector<Candidate>& candidates, double flops) {
  Net<T>& net = solver.net();
  double products = 0;
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Shapes bottoms;
    for (const Blob<T>* bottom : net.bottoms()[l]) bottoms.push_back(bottom->shape());
    products += static_cast<double>(net.layers()[l]->MultiplyAdds(bottoms));
  }
  const auto built = static_cast<double>(FileBatch(solver));
  const double share = static_cast<double>(RowsOf(solver.replica(), FileBatch(solver))) / built;
  StepModel model{.compute = 6 * products * share * solver.param().iter_size() / flops};
  for (const Param<T>& param : net.params())
    if (!param.frozen()) model.dense_bytes += param.blob->count() * int64_t{sizeof(T)};
  for (const Candidate& candidate : candidates)
    model.dense_bytes -=
        candidate.size.inputs * candidate.size.outputs * candidate.size.element_bytes;
  return model;
}

int Hosts(const Group& group) {
  std::set<std::string> hosts;
  for (int r = 0; r < group.size(); ++r) hosts.insert(group.host(r));
  return Count(hosts);
}

// Whether the plan has every layer as it was asked for.
bool Follows(const LayerPlan& plan, const LayerPlan& asked) {
  return std::ranges::all_of(plan.layers, [&](const auto& layer) {
    return asked.Find(layer.first).value_or(layer.second) == layer.second;
  });
}

// The plan of the snapshot, if it was made for such a run.
template <typename T>
bool TakeStored(Solver<T>& solver, const Group& group, const TrainingState& state,
                const LayerPlan& asked, LayerPlan* plan) {
  const TrainingPlan& stored = state.training_plan();
  if (!stored.has_layers()) return false;
  const bool same = stored.ranks() == group.size() && stored.hosts() == Hosts(group) &&
                    state.workers() == solver.replica().count &&
                    state.global_batch() == GlobalBatch(solver);
  try {
    *plan = LayerPlan::Parse(stored.layers());
    CheckPlan(*plan, solver.net(), solver.factor_rows());
  } catch (const ConfigError&) {  // of another net
    return false;
  }
  if (!Follows(*plan, asked)) return false;
  if (group.rank() == 0)
    LogInfo("{}", same ? "the plan of the snapshot is used again"
                       : "ranks, hosts or batch differ from the snapshot's: planning again");
  return same;
}

void LogTable(const std::vector<Candidate>& candidates, const LayerPlan& plan, int ranks,
              const ClusterRates& rates, const StepModel& model) {
  LogInfo(
      "measured: {:.0f} us per message, {:.0f} MB/s, {:.2f} ns of CPU per byte, {:.3g} GFLOP/s; "
      "passes estimated at {:.3g} ms",
      rates.latency * 1e6, 1e-6 / std::max(rates.per_byte, 1e-15), rates.cpu_per_byte * 1e9,
      rates.flops * 1e-9, model.compute * 1e3);
  LogInfo("{:<16} {:>6} {:>6} {:>5} | {:>9} {:>8} | {:>9} {:>8} | {:>9} {:>8} | {:<6} | choice",
          "layer", "M", "N", "K", "dense MB", "ms", "sfb MB", "ms", "ssfb MB", "ms", "volume");
  for (const Candidate& c : candidates) {
    std::string costs;
    for (const auto& cost : {DenseCost, FactorCost, ShardedFactorCost}) {
      const SchemeCost of = cost(c.size, ranks, rates);
      costs += fmt::format(" {:>9.3f} {:>8.2f} |", 1e-6 * static_cast<double>(of.bytes),
                           1e3 * of.seconds);
    }
    LogInfo("{:<16} {:>6} {:>6} {:>5} |{} {:<6} | {}", c.name, c.size.inputs, c.size.outputs,
            c.size.rows, costs, VolumeRuleTakesFactors(c.size, ranks, ranks) ? "sfb" : "dense",
            NameOf(*plan.Find(c.name)));
  }
}

}  // namespace

template <typename T>
LayerPlan MakeAutoPlan(Solver<T>& solver, Group& group, const SchemeSettings& scheme,
                       const LayerPlan& asked, TrainingState* state) {
  LayerPlan plan;
  const std::vector<Candidate> candidates = CandidatesOf(solver);
  if (group.size() == 1 || candidates.empty()) return plan;
  if (!TakeStored(solver, group, *state, asked, &plan)) {
    std::vector<LayerSize> sizes;
    for (const Candidate& candidate : candidates) sizes.push_back(candidate.size);
    const ClusterRates rates = MeasureRates<T>(group, solver.stream(), scheme, sizes);
    const StepModel model = ModelOf(solver, candidates, rates.flops);
    const std::vector<bool> chosen = ChooseFactors(sizes, model, group.size(), rates);
    plan = {};
    for (size_t i = 0; i < candidates.size(); ++i) {
      const LayerScheme scheme_of = chosen[i] ? LayerScheme::kFactors : LayerScheme::kDense;
      plan.layers.emplace_back(candidates[i].name,
                               asked.Find(candidates[i].name).value_or(scheme_of));
    }
    // Rank 0's, for shares of rows may differ by one.
    plan = LayerPlan::Parse(group.AllGather(plan.Text(), "the plan of the layers")[0]);
    if (group.rank() == 0) LogTable(candidates, plan, group.size(), rates, model);
  }
  TrainingPlan& stored = *state->mutable_training_plan();
  stored.set_layers(plan.Text());
  stored.set_ranks(group.size());
  stored.set_hosts(Hosts(group));
  return plan;
}

template LayerPlan MakeAutoPlan(Solver<float>&, Group&, const SchemeSettings&, const LayerPlan&,
                                TrainingState*);
template LayerPlan MakeAutoPlan(Solver<double>&, Group&, const SchemeSettings&, const LayerPlan&,
                                TrainingState*);

}  // namespace carafe
