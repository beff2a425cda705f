#include "carafe/exchange/host_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>

#include "carafe/base/index.h"

namespace carafe {

HostLayout::HostLayout(const std::vector<std::string>& host_names) {
  std::map<std::string, int> number;
  for (int rank = 0; rank < Count(host_names); ++rank) {
    const int host = number.try_emplace(At(host_names, rank), Count(number)).first->second;
    if (host == hosts()) ranks_.emplace_back();
    At(ranks_, host).push_back(rank);
    host_of_.push_back(host);
  }
}

HostLayout HostLayout::Even(int ranks, int per_host) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(std::to_string(rank / per_host));
  return HostLayout(names);
}

int HostLayout::fewest() const {
  size_t ranks = known() ? ranks_.front().size() : 1;
  for (const std::vector<int>& host : ranks_) ranks = std::min(ranks, host.size());
  return static_cast<int>(ranks);
}

int HostLayout::most() const {
  size_t ranks = 1;
  for (const std::vector<int>& host : ranks_) ranks = std::max(ranks, host.size());
  return static_cast<int>(ranks);
}

// Whole branches of the tree are aligned blocks of 2^k ranks, and the rest at the end.
bool HostLayout::is_rank_tree() const {
  if (hosts() <= 1 || most() == 1) return true;
  const size_t local = ranks_.front().size();
  if (!std::has_single_bit(local)) return false;
  for (size_t host = 0; host < ranks_.size(); ++host) {
    const std::vector<int>& ranks = ranks_[host];
    const bool last = host + 1 == ranks_.size();
    if (last ? ranks.size() > local : ranks.size() != local) return false;
    if (ranks.back() - ranks.front() + 1 != Count(ranks)) return false;
  }
  return true;
}

std::string HostLayout::Describe() const {
  if (fewest() == most()) return fmt::format("each host of {} ranks", most());
  return fmt::format("each host of {} to {} ranks", fewest(), most());
}

std::string HostLayout::text() const {
  return saves_bytes() || one_host() ? fmt::format("{}", fmt::join(host_of_, " ")) : "flat";
}

}  // namespace carafe
