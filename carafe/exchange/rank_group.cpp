#include "carafe/exchange/rank_group.h"

#include <algorithm>
#include <utility>

#include "carafe/base/index.h"

namespace carafe {

RankGroup RankGroup::Of(const std::vector<int>& ranks) {
  const int stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  for (int i = 0; i < Count(ranks); ++i)
    if (At(ranks, i) != ranks[0] + i * stride || stride < 1)
      return {.count = Count(ranks), .list = std::make_shared<const List>(List{ranks, {}})};
  return {ranks[0], stride, Count(ranks)};
}

RankGroup RankGroup::InTreesOf(const HostLayout& hosts) {
  List list;
  for (const std::vector<int>& host : hosts.by_host()) {
    list.ranks.insert(list.ranks.end(), host.begin(), host.end());
    list.subtrees.push_back(Count(host));
  }
  return {.count = Count(list.ranks), .list = std::make_shared<const List>(std::move(list))};
}

int RankGroup::IndexOf(int rank) const {
  if (list) {
    const auto found = std::find(list->ranks.begin(), list->ranks.end(), rank);
    return found == list->ranks.end() ? -1 : static_cast<int>(found - list->ranks.begin());
  }
  const int index = (rank - first) / stride;
  return rank >= first && (rank - first) % stride == 0 && index < count ? index : -1;
}

}  // namespace carafe
