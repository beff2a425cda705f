// The ranks that take part in one sum or broadcast, in the order in which their parts are added.
#pragma once

#include <memory>
#include <vector>

#include "carafe/exchange/host_layout.h"

namespace carafe {

// The ranks whose parts a sum adds: all ranks, those of one host, or one rank of each host. They
// are first, first + stride, .., or any list.
struct RankGroup {
  struct List {
    std::vector<int> ranks;
    // Members are added in trees of so many each, and their sums in one tree. Empty: one tree.
    std::vector<int> subtrees;
  };
  int first = 0, stride = 1, count = 0;
  std::shared_ptr<const List> list = {};  // null: by first and stride

  static RankGroup Of(const std::vector<int>& ranks);
  static RankGroup InTreesOf(const HostLayout& hosts);  // all ranks, host by host
  int at(int i) const { return list ? list->ranks.at(static_cast<size_t>(i)) : first + i * stride; }
  int IndexOf(int rank) const;  // -1 if the rank is not in the group
  bool Has(int rank) const { return IndexOf(rank) >= 0; }
};

}  // namespace carafe
