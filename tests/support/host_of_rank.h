// Ranks that are threads, with the host names of a list.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {

inline RankLink OnHosts(const std::vector<std::string>& hosts) {
  return [hosts](std::unique_ptr<Transport> threads) {
    const std::string& host = hosts.at(static_cast<size_t>(threads->rank()));
    return std::make_unique<WrappedTransport>(std::move(threads), host);
  };
}

}  // namespace carafe
