#include "carafe/exchange/cost_model.h"

#include <algorithm>

namespace carafe {
namespace {

double Sent(double bytes, const ClusterRates& rates) {
  return bytes * (rates.per_byte + rates.cpu_per_byte);
}

}  // namespace

SchemeCost DenseCost(const LayerSize& layer, int ranks, const ClusterRates& rates) {
  const double n = static_cast<double>(layer.element_bytes) * static_cast<double>(layer.inputs) *
                   static_cast<double>(layer.outputs);
  const double others = ranks - 1, share = n * others / ranks;
  return {.seconds =
              2 * others * rates.latency + Sent(2 * share, rates) + share * rates.reduce_per_byte,
          .bytes = static_cast<int64_t>(2 * share)};
}

SchemeCost FactorCost(const LayerSize& layer, int ranks, const ClusterRates& rates) {
  const double others = ranks - 1;
  const int64_t bytes =
      layer.element_bytes * layer.rows * (ranks - 1) * (layer.inputs + layer.outputs);
  const double compute = 2.0 * static_cast<double>(layer.rows) * others *
                         static_cast<double>(layer.inputs) * static_cast<double>(layer.outputs) /
                         rates.flops;
  return {.seconds = others * rates.latency + Sent(static_cast<double>(bytes), rates) + compute,
          .compute = compute,
          .bytes = bytes};
}

SchemeCost ShardedFactorCost(const LayerSize& layer, int ranks, const ClusterRates& rates) {
  const double others = ranks - 1, width = static_cast<double>(layer.element_bytes);
  const auto smaller = static_cast<double>(std::min(layer.inputs, layer.outputs));
  const auto larger = static_cast<double>(std::max(layer.inputs, layer.outputs));
  const double factors =
      width * static_cast<double>(layer.rows) * others * (smaller + larger / ranks);
  const double values = width * smaller * larger * others / ranks;
  return {.seconds = 2 * others * rates.latency + Sent(factors + values, rates),
          .bytes = static_cast<int64_t>(factors + values)};
}

bool VolumeRuleTakesFactors(const LayerSize& layer, int workers, int servers) {
  const auto m = static_cast<double>(layer.inputs), n = static_cast<double>(layer.outputs);
  return 2.0 * static_cast<double>(layer.rows) * (workers - 1) * (m + n) <=
         2.0 * m * n * (workers + servers - 2) / servers;
}

double StepSeconds(std::span<const LayerSize> layers, const std::vector<bool>& by_factors,
                   const StepModel& step, int ranks, const ClusterRates& rates) {
  ClusterRates wire = rates;
  wire.cpu_per_byte = 0;
  const LayerSize rest{.inputs = step.dense_bytes, .outputs = 1, .element_bytes = 1};
  const SchemeCost of_rest = DenseCost(rest, ranks, wire);
  double transfers = of_rest.seconds, compute = step.compute;
  auto sent = static_cast<double>(of_rest.bytes);
  for (size_t i = 0; i < layers.size(); ++i) {
    const SchemeCost cost =
        by_factors[i] ? FactorCost(layers[i], ranks, wire) : DenseCost(layers[i], ranks, wire);
    transfers += cost.seconds - cost.compute;
    compute += cost.compute;
    sent += static_cast<double>(cost.bytes);
  }
  return std::max(transfers, compute + sent * rates.cpu_per_byte);
}

std::vector<bool> ChooseFactors(std::span<const LayerSize> layers, const StepModel& step, int ranks,
                                const ClusterRates& rates) {
  std::vector<bool> chosen(layers.size());
  double best = StepSeconds(layers, chosen, step, ranks, rates);
  while (true) {
    size_t next = layers.size();
    for (size_t i = 0; i < layers.size(); ++i) {
      if (chosen[i]) continue;
      chosen[i] = true;
      const double seconds = StepSeconds(layers, chosen, step, ranks, rates);
      chosen[i] = false;
      if (seconds >= best) continue;
      best = seconds;
      next = i;
    }
    if (next == layers.size()) return chosen;
    chosen[next] = true;
  }
}

}  // namespace carafe
