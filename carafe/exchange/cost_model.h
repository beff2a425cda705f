// What the schemes for one fully connected layer cost, as pure functions of measured rates: bytes
// and predicted seconds (derived in docs/exchanges.md, "The plan"). Nothing here communicates.
//
// An M x N layer (M inputs, N outputs), P ranks, K rows of the layer's bottom per rank and
// iteration (iter_size, workers and `axis` included), w bytes per element, n = w M N bytes of
// gradient:
//   dense     2 (P-1) a + 2 n (P-1)/P (b + c) + n (P-1)/P g
//   factors   (P-1) a + w K (P-1) (M + N) (b + c) + 2 K (P-1) M N / F
//   sharded   2 (P-1) a + (w K (P-1) (min + max / P) + n (P-1)/P) (b + c)
// with latency a, seconds per byte on the wire b and of the CPU c, reduction g and GEMM rate F.
// GEMM work counts only beyond that of the local gradient, which every scheme but dense replaces:
// sharded factors have none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace carafe {

struct ClusterRates {
  double latency = 0;          // seconds per message
  double per_byte = 0;         // seconds: on the wire, with all ranks sending
  double cpu_per_byte = 0;     // seconds of this rank's cores per byte that it sends
  double reduce_per_byte = 0;  // seconds per byte that it adds
  double flops = 1e12;         // of a product, per second
};

struct LayerSize {
  int64_t inputs = 0, outputs = 0;  // M, N
  int64_t rows = 0;                 // K
  int64_t element_bytes = 4;
};

struct SchemeCost {
  double seconds = 0;
  double compute = 0;  // of them, product beyond the local gradient: nothing hides it
  int64_t bytes = 0;   // that a rank sends
};

SchemeCost DenseCost(const LayerSize& layer, int ranks, const ClusterRates& rates);
SchemeCost FactorCost(const LayerSize& layer, int ranks, const ClusterRates& rates);
SchemeCost ShardedFactorCost(const LayerSize& layer, int ranks, const ClusterRates& rates);

// Poseidon's rule, by volume alone, for P1 workers and P2 servers (here: both all ranks): factors
// where 2 K (P1-1) (M + N) <= 2 M N (P1 + P2 - 2) / P2.
bool VolumeRuleTakesFactors(const LayerSize& layer, int workers, int servers);

// What is known of a step besides the layers that have factors.
struct StepModel {
  double compute = 0;       // seconds of all passes of a rank, local gradients included
  int64_t dense_bytes = 0;  // gradients of all other parameters
};

// What a step takes if transfers are hidden behind computing as far as they can be: the longer of
// both. Products beyond the local gradient and the CPU time of transfers add to computing.
double StepSeconds(std::span<const LayerSize> layers, const std::vector<bool>& by_factors,
                   const StepModel& step, int ranks, const ClusterRates& rates);

// By layer, whether its factors are exchanged: beginning with dense sums everywhere, the layer that
// shortens the step most, as long as one does.
std::vector<bool> ChooseFactors(std::span<const LayerSize> layers, const StepModel& step, int ranks,
                                const ClusterRates& rates);

}  // namespace carafe
