// For the files that define synchronous schemes: enters one in the tables before main().
#pragma once

#include <algorithm>

#include "carafe/exchange/exchange_registry.h"
#include "carafe/exchange/scheme.h"
#include "carafe/exchange/synchronous.h"

namespace carafe {

struct RegisterScheme {
  explicit RegisterScheme(const Scheme& scheme) {
    SchemeRegistry::Instance().Add(scheme.name, scheme);
    ExchangeRegistry::Instance().Add(
        scheme.name,
        {.name = scheme.name,
         .summary = scheme.summary,
         .describe = scheme.describe,
         .make_float = [scheme](const auto& setup) { return MakeSynchronous(scheme, setup); },
         .make_double = [scheme](const auto& setup) { return MakeSynchronous(scheme, setup); }});
  }
};

// Chunks of one message each.
template <typename F>
std::vector<Program> CutByMessage(const SchemeSettings& settings, int64_t count, int64_t bytes,
                                  const F& program) {
  const int64_t width = count > 0 ? bytes / count : 1;
  return Cut(count, std::max<int64_t>(static_cast<int64_t>(settings.message_bytes) / width, 1),
             program);
}

// Sums of encoded parts at rank 0: each rank's or, where that saves bytes, each host's, straight to
// rank 0, so that every part is encoded once.
inline std::vector<Program> GatherEncoded(const SchemeSettings& settings, int rank, int size,
                                          int64_t count, int64_t bytes) {
  const HostLayout hosts = settings.hosts.saves_bytes() ? settings.hosts : HostLayout();
  return CutByMessage(settings, count, bytes, [&](int64_t begin, int64_t end) {
    return PlainInsideHosts(hosts, rank, GatherAtRoot(rank, size, hosts, begin, end));
  });
}

}  // namespace carafe
