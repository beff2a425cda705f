// Measures what a sum costs on this cluster, and chooses the buckets by it.
#include <algorithm>
#include <bit>
#include <vector>

#include "carafe/base/timer.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/plan.h"

namespace carafe {
namespace {

constexpr int kRounds = 7;
constexpr int64_t kShort = 1024, kLong = int64_t{256} << 10;  // elements

// Best of some sums of `count` floats.
double TimeOfSum(Group& group, const std::string& name, const SchemeSettings& scheme,
                 int64_t count) {
  std::vector<float> gradient(static_cast<size_t>(count)), value(gradient.size());
  std::vector<ParamInfo<float>> params;
  params.push_back(
      {.name = "trial", .count = count, .value = value.data(), .gradient = gradient.data()});
  Stream stream;
  const auto exchange = MakeExchange<float>(name, {.group = group,
                                                   .params = params,
                                                   .update = [](int, Stream&) {},
                                                   .bucket_bytes = gradient.size() * sizeof(float),
                                                   .scheme = scheme});
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const Timer timer;
    exchange->GradientReady(0, 0, stream);
    exchange->Vote({});
    exchange->FinishStep();
    exchange->AwaitVerdict();
    exchange->Drain(0, stream);
    best = std::min(best, timer.Seconds());
  }
  return best;
}

}  // namespace

SumCost MeasureSumCost(Group& group, const std::string& exchange, const SchemeSettings& scheme) {
  if (group.size() == 1) return {};
  SchemeSettings whole = scheme;
  whole.timeout = -1;
  const double small = TimeOfSum(group, exchange, whole, kShort);
  const double large = TimeOfSum(group, exchange, whole, kLong);
  SumCost cost;
  cost.per_byte =
      std::max(large - small, 0.0) / static_cast<double>((kLong - kShort) * int64_t{sizeof(float)});
  cost.latency = small;
  group.Broadcast(&cost, sizeof cost, 0, "what a sum costs");
  return cost;
}

size_t MessageBytesFor(const SumCost& cost) {
  constexpr double kInFlight = 1.5e-3 / Channel::kWindow;  // seconds per message
  // The longest that share a frame with their header (mpi_transport.cpp); messages of 256 KB took
  // 1.5 times as long.
  constexpr size_t kLeast = size_t{32} << 10, kMost = size_t{128} << 10;
  if (cost.per_byte <= 0) return kMost;
  const double bytes = std::min(kInFlight / cost.per_byte, static_cast<double>(kMost));
  return std::max(std::bit_floor(static_cast<size_t>(bytes)), kLeast);
}

template <typename T>
std::vector<int> PlanBuckets(Group& group, std::span<const ParamInfo<T>> params,
                             const std::vector<double>& ready_times, const SumCost& cost) {
  const std::vector<int> order = ArenaOrder(params);
  std::vector<double> ready;
  std::vector<int64_t> bytes;
  double last = 0;
  for (int p : order) {
    last = std::max(last, ready_times[static_cast<size_t>(p)]);  // of a shared parameter: later
    ready.push_back(last);
    const ParamInfo<T>& param = params[static_cast<size_t>(p)];
    const FactorShape& factors = param.factors;
    // A sum of n bytes sends 2 n (P-1)/P; every rank's factors go to P-1 others.
    const int64_t count =
        factors.rows == 0 ? param.count
                          : factors.rows * (factors.a_width + factors.b_width) * group.size() / 2;
    bytes.push_back(count * int64_t{sizeof(T)});
  }
  std::vector<int> sizes = MergeForEarliestEnd(ready, bytes, cost);
  int64_t count = static_cast<int64_t>(sizes.size());
  group.Broadcast(&count, sizeof count, 0, "the number of buckets");
  sizes.resize(static_cast<size_t>(count));
  group.Broadcast(sizes.data(), sizes.size() * sizeof(int), 0, "the buckets");
  return sizes;
}

template std::vector<int> PlanBuckets(Group&, std::span<const ParamInfo<float>>,
                                      const std::vector<double>&, const SumCost&);
template std::vector<int> PlanBuckets(Group&, std::span<const ParamInfo<double>>,
                                      const std::vector<double>&, const SumCost&);

}  // namespace carafe
