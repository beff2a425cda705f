#include "carafe/exchange/exchange.h"

#include <fmt/format.h>

#include <type_traits>

#include "carafe/base/error.h"
#include "carafe/exchange/single.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup) {
  const ExchangeRegistry& registry = ExchangeRegistry::Instance();
  const ExchangeEntry* entry = registry.Find(name);
  if (!entry) {
    std::string built;
    for (const std::string& known : registry.Names()) built += (built.empty() ? "" : ", ") + known;
    throw ConfigError(fmt::format("there is no exchange \"{}\"", name),
                      fmt::format("take one of those that are built: {}", built));
  }
  if (setup.group.size() == 1) return MakeSingle<T>(setup);
  if constexpr (std::is_same_v<T, float>) {
    return entry->make_float(setup);
  } else {
    return entry->make_double(setup);
  }
}

template std::unique_ptr<Exchange<float>> MakeExchange(const std::string&,
                                                       const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeExchange(const std::string&,
                                                        const ExchangeSetup<double>&);

}  // namespace carafe
