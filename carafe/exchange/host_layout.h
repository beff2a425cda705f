// Which ranks share a host. It decides the order of sums between ranks: the fixed tree over the
// hosts of the fixed trees over their ranks (core/tree_sum.h). Where every host has the same number
// of neighbouring ranks, a power of two, that is the tree over all ranks.
#pragma once

#include <string>
#include <vector>

namespace carafe {

// A value, constant after construction. Hosts are numbered by their first ranks, so rank 0 is the
// first rank of host 0.
class HostLayout {
 public:
  HostLayout() = default;  // unknown: every rank is taken as a host of its own
  explicit HostLayout(const std::vector<std::string>& host_names);  // by rank
  static HostLayout Even(int ranks, int per_host);  // neighbours; the last host may have fewer

  bool known() const { return !ranks_.empty(); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks(int host) const { return ranks_.at(static_cast<size_t>(host)); }
  int host_of(int rank) const { return host_of_.at(static_cast<size_t>(rank)); }
  const std::vector<std::vector<int>>& by_host() const { return ranks_; }
  int fewest() const;  // ranks of any host; 1 if unknown
  int most() const;

  bool one_host() const { return hosts() == 1; }
  // Sums inside hosts first send fewer bytes between hosts: there are several hosts, and one of
  // them has several ranks.
  bool saves_bytes() const { return hosts() > 1 && most() > 1; }
  // The order of sums is that of the tree over all ranks.
  bool is_rank_tree() const;
  // "each host of 3 ranks", "each host of 1 to 4 ranks".
  std::string Describe() const;
  std::string text() const;  // equal texts mean equal layouts; "flat" if every rank is a host

 private:
  std::vector<std::vector<int>> ranks_;  // by host, ascending
  std::vector<int> host_of_;             // by rank
};

}  // namespace carafe
