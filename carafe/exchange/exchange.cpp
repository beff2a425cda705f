#include "carafe/exchange/exchange.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "carafe/comm/comm_thread.h"
#include "carafe/exchange/synchronous.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup) {
  return MakeSynchronous<T>(FindScheme(name), setup);
}

std::string DescribeExchange(const Group& group, const std::string& exchange,
                             const SchemeSettings& scheme) {
  if (group.size() == 1) return "";
  SchemeSettings settings = scheme;
  const std::vector<std::string> hosts = group.thread()->hosts();
  settings.local = LocalRanks(hosts);
  const std::string flat = settings.algorithm == "auto" ? WhyFlat(hosts) : "";  // else asked for
  return fmt::format("{}: {}{}; by {}", exchange,
                     FindScheme(exchange).describe(settings, group.size()),
                     flat.empty() ? "" : fmt::format(" (flat: {})", flat), group.thread()->way());
}

template std::unique_ptr<Exchange<float>> MakeExchange(const std::string&,
                                                       const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeExchange(const std::string&,
                                                        const ExchangeSetup<double>&);

}  // namespace carafe
