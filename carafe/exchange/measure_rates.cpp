#include "carafe/exchange/measure_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "carafe/base/timer.h"
#include "carafe/exchange/factor_product.h"

namespace carafe {
namespace {

constexpr double kFlopsOfTrial = 1e8;
// What MeasureSumCost (tuning.cpp) sums in all: some rounds of a short and of a long array.
constexpr double kSummedBytes = 7.0 * 4 * (1024 + (256 << 10));

double CpuSeconds() {  // of all threads of this process
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Work {
  double flops = 0, seconds = 0;
};

// The better of two products; of the outputs only as many as keep it short.
template <typename T>
Work TimeProduct(Stream& stream, const LayerSize& layer, int ranks) {
  const int64_t rows = layer.rows * ranks;
  const double per_output = 2.0 * static_cast<double>(rows) * static_cast<double>(layer.inputs);
  const auto fitting = static_cast<int64_t>(kFlopsOfTrial / std::max(per_output, 1.0));
  const FactorShape shape{rows, std::clamp<int64_t>(fitting, 1, layer.outputs), layer.inputs};
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  const std::vector<T> a(size(rows * shape.a_width), T(0.5)), b(size(rows * shape.b_width), T(1));
  std::vector<T> gradient(size(shape.a_width * shape.b_width));
  std::vector<T> memory(size(ProductMemory<T>(shape)));
  Work work{.flops = per_output * static_cast<double>(shape.a_width), .seconds = 1e9};
  for (int i = 0; i < 2; ++i) {
    const Timer timer;
    MultiplyFactors(stream, shape, a.data(), b.data(), memory.data(), gradient.data());
    work.seconds = std::min(work.seconds, timer.Seconds());
  }
  return work;
}

}  // namespace

template <typename T>
double ProductRate(Stream& stream, std::span<const LayerSize> layers, int ranks) {
  Work all;
  const Timer timer;
  for (const LayerSize& layer : layers) {
    if (timer.Seconds() > kMeasureSeconds) break;
    const Work work = TimeProduct<T>(stream, layer, ranks);
    all.flops += work.flops;
    all.seconds += work.seconds;
  }
  return all.seconds > 0 ? all.flops / all.seconds : ClusterRates().flops;
}

template <typename T>
ClusterRates MeasureRates(Group& group, Stream& stream, const SchemeSettings& scheme,
                          std::span<const LayerSize> layers) {
  const int ranks = group.size();
  ClusterRates rates;
  rates.flops = ProductRate<T>(stream, layers, ranks);
  const double cpu_before = CpuSeconds();
  const SumCost cost = MeasureSumCost(group, "allreduce", scheme);
  const double cpu = CpuSeconds() - cpu_before;
  // A sum of n bytes sends 2 n (P-1)/P.
  const double sent = 2.0 * (ranks - 1) / ranks;
  rates.latency = cost.latency / (2.0 * (ranks - 1));
  rates.per_byte = cost.per_byte / sent;
  rates.cpu_per_byte = cpu / (kSummedBytes * sent);
  // The slowest rank's.
  const std::vector<std::string> all = group.AllGather(
      fmt::format("{:.17g} {:.17g}", rates.flops, rates.cpu_per_byte), "the rates of products");
  for (const std::string& text : all) {
    char* rest = nullptr;
    rates.flops = std::min(rates.flops, std::strtod(text.c_str(), &rest));
    rates.cpu_per_byte = std::max(rates.cpu_per_byte, std::strtod(rest, nullptr));
  }
  return rates;
}

template double ProductRate<float>(Stream&, std::span<const LayerSize>, int);
template double ProductRate<double>(Stream&, std::span<const LayerSize>, int);
template ClusterRates MeasureRates<float>(Group&, Stream&, const SchemeSettings&,
                                          std::span<const LayerSize>);
template ClusterRates MeasureRates<double>(Group&, Stream&, const SchemeSettings&,
                                           std::span<const LayerSize>);

}  // namespace carafe
