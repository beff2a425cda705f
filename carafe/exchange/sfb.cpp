// The exchanges "sfb", after Poseidon, and "auto": sufficient factors of fully connected layers go
// to all ranks, each of which multiplies them; everything else is summed as by "allreduce".
#include <fmt/format.h>

#include "carafe/exchange/exchange_registry.h"
#include "carafe/exchange/synchronous.h"

namespace carafe {
namespace {

// The row of allreduce, which all files have entered before the first call.
Scheme WithFactors(const std::string& name) {
  Scheme scheme = FindScheme("allreduce");
  scheme.name = name;
  scheme.takes_factors = true;
  return scheme;
}

std::string Describe(const SchemeSettings& settings, int size) {
  return fmt::format("factors of fully connected layers to all{}, else {}",
                     settings.hosts.saves_bytes() ? " hosts" : " ranks",
                     FindScheme("allreduce").describe(settings, size));
}

struct RegisterWithFactors {
  RegisterWithFactors(const std::string& name, const std::string& summary) {
    const auto make = [name](const auto& setup) {
      return MakeSynchronous(WithFactors(name), setup);
    };
    ExchangeRegistry::Instance().Add(name, {.name = name,
                                            .summary = summary,
                                            .describe = Describe,
                                            .make_float = make,
                                            .make_double = make});
  }
};
const RegisterWithFactors kSfb{
    "sfb", "Factors of fully connected layers to all ranks, the rest as by allreduce."};
// Which layers is decided before (train/auto_plan.h): the others offer no factors.
const RegisterWithFactors kAuto{
    "auto", "Factors where measurements predict a shorter step, else as by allreduce."};

}  // namespace
}  // namespace carafe
