// Ranks that are threads, said to run on the hosts of a list.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {

class HostOfRank final : public WrappedTransport {
 public:
  HostOfRank(std::unique_ptr<Transport> inner, const std::vector<std::string>& hosts)
      : WrappedTransport(std::move(inner)), host_(hosts.at(static_cast<size_t>(rank()))) {}
  const std::string& host() const override { return host_; }

 private:
  const std::string host_;
};

inline RankLink OnHosts(const std::vector<std::string>& hosts) {
  return [hosts](std::unique_ptr<Transport> threads) {
    return std::make_unique<HostOfRank>(std::move(threads), hosts);
  };
}

}  // namespace carafe
