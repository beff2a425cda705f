// The table of exchanges: what --exchange may name. A file that defines a strategy enters it before
// main() with RegisterExchange; synchronous schemes enter themselves with RegisterScheme
// (register_scheme.h), one row each.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "carafe/base/registry.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

struct ExchangeKind {
  std::string name;
  std::string summary;
  bool listed = true;  // false: messages do not offer it (exchanges of tests)
  // For the log, in a few words: what is sent to whom. settings.hosts is known.
  std::function<std::string(const SchemeSettings& settings, int size)> describe;
  std::function<std::unique_ptr<Exchange<float>>(const ExchangeSetup<float>&)> make_float = {};
  std::function<std::unique_ptr<Exchange<double>>(const ExchangeSetup<double>&)> make_double = {};
};

using ExchangeRegistry = Registry<ExchangeKind>;

// Throws ConfigError that lists the names.
const ExchangeKind& FindExchange(const std::string& name);

// For a strategy that is constructed from an ExchangeSetup.
template <template <typename> class Strategy>
struct RegisterExchange {
  explicit RegisterExchange(ExchangeKind kind) {
    kind.make_float = [](const ExchangeSetup<float>& setup) {
      return std::make_unique<Strategy<float>>(setup);
    };
    kind.make_double = [](const ExchangeSetup<double>& setup) {
      return std::make_unique<Strategy<double>>(setup);
    };
    ExchangeRegistry::Instance().Add(kind.name, kind);
  }
};

}  // namespace carafe
