// Kind "filler": statistics of large random parameters, loose by nature.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nets.h"

namespace carafe::golden {
namespace {

void CheckStatistics(const std::string& name, const Json& expected, const Array& array,
                     Report& report) {
  const double count = static_cast<double>(array.values.size());
  const double mean = std::accumulate(array.values.begin(), array.values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : array.values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / count);
  const double want_mean = expected.at("mean"), want_deviation = expected.at("std");
  report.Check(std::abs(deviation - want_deviation) <= 0.05 * want_deviation + 1e-7,
               fmt::format("{}: deviation {}, expected {}", name, deviation, want_deviation));
  report.Check(
      std::abs(mean - want_mean) <= 0.05 * std::max(want_deviation, std::abs(want_mean)) + 1e-7,
      fmt::format("{}: mean {}, expected {}", name, mean, want_mean));
  if (expected.value("bounded", false)) {
    const double low = expected.at("lo"), high = expected.at("hi");
    const auto [least, most] = std::ranges::minmax(array.values);
    report.Check(
        least >= low - 1e-5 && most <= high + 1e-5 && most > 0.9 * high &&
            least < low + 0.1 * (high - low),
        fmt::format("{}: range {} to {}, expected {} to {}", name, least, most, low, high));
  }
}

// Each row sums to the given number.
void CheckRowSums(const std::string& name, double expected, const Array& array, Report& report) {
  const size_t rows = static_cast<size_t>(array.shape.at(0)), width = array.values.size() / rows;
  Array sums = Array::Of({array.shape[0]}, {});
  for (size_t r = 0; r < rows; ++r) {
    const auto begin = array.values.begin() + static_cast<std::ptrdiff_t>(r * width);
    sums.values.push_back(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(width), 0.0));
  }
  report.Compare(name + " row sums", Array::Of(sums.shape, std::vector<double>(rows, expected)),
                 sums, {1e-4, 1e-6});
}

}  // namespace

void RunFiller(const Case& c, Report& report) {
  Stream stream(c.options.device(), c.options.threads);
  const NetSpec spec = LoadNetSpec(c.Text("path"));
  RequireLayerTypes(spec.param);
  Net<float> net(spec, StateOf(spec, TRAIN));
  net.Initialise(stream, /*seed=*/1);
  for (const auto& [name, expected] : c.entry.at("stats").items()) {
    const Array array = DataOf(stream, ParamNamed(net, name));
    report.Check(array.shape == expected.at("shape").get<std::vector<int64_t>>(),
                 name + ": other shape");
    CheckStatistics(name, expected, array, report);
    if (expected.contains("row_sum")) {
      CheckRowSums(name, expected.at("row_sum"), array, report);
    }
  }
}

}  // namespace carafe::golden
