#include "carafe/exchange/exchange.h"

#include <fmt/format.h>

#include <string>
#include <type_traits>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/exchange/exchange_registry.h"

namespace carafe {

const ExchangeKind& FindExchange(const std::string& name) {
  const ExchangeRegistry& registry = ExchangeRegistry::Instance();
  if (const ExchangeKind* kind = registry.Find(name)) return *kind;
  std::vector<std::string> listed;
  for (const auto& [other, kind] : registry.entries())
    if (kind.listed) listed.push_back(other);
  throw ConfigError(fmt::format("there is no exchange \"{}\"", name),
                    fmt::format("take one of those that are built: {}", fmt::join(listed, ", ")));
}

template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup) {
  const ExchangeKind& kind = FindExchange(name);
  if constexpr (std::is_same_v<T, float>)
    return kind.make_float(setup);
  else
    return kind.make_double(setup);
}

std::string DescribeExchange(const Group& group, const std::string& exchange,
                             const SchemeSettings& scheme) {
  if (group.size() == 1) return "";
  SchemeSettings settings = scheme;
  if (!settings.hosts.known()) settings.hosts = HostLayout(group.thread()->hosts());
  return fmt::format("{}: {}; by {}", exchange,
                     FindExchange(exchange).describe(settings, group.size()),
                     group.thread()->backend());
}

template std::unique_ptr<Exchange<float>> MakeExchange(const std::string&,
                                                       const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeExchange(const std::string&,
                                                        const ExchangeSetup<double>&);

}  // namespace carafe
