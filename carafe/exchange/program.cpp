#include "carafe/exchange/program.h"

#include <algorithm>
#include <bit>

#include "carafe/base/index.h"

namespace carafe {
namespace {

using Kind = Operation::Kind;

struct Range {
  int64_t begin, end;
};

void Add(Program& program, Kind kind, int peer, Range range, int label) {
  if (range.begin < range.end) program.push_back({kind, peer, range.begin, range.end, label});
}

void AddSum(Program& program, const RankGroup& group, Range range, int label) {
  if (range.begin < range.end)
    program.push_back({Kind::kSum, -1, range.begin, range.end, label, group});
}

// The ranks of this rank's host, and the first ranks of all hosts.
RankGroup HostOf(int rank, const HostLayout& hosts) {
  return hosts.known() ? RankGroup::Of(hosts.ranks(hosts.host_of(rank))) : RankGroup{rank, 1, 1};
}

RankGroup FirstRanks(int size, const HostLayout& hosts) {
  if (!hosts.known()) return {0, 1, size};
  std::vector<int> ranks;
  for (const std::vector<int>& host : hosts.by_host()) ranks.push_back(host.front());
  return RankGroup::Of(ranks);
}

Range Segment(Range all, int count, int i) {
  return {SegmentBegin(all.begin, all.end, count, i),
          SegmentBegin(all.begin, all.end, count, i + 1)};
}

// Segment i goes to member i of the group.
void SendParts(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int mine = group.IndexOf(rank);
  for (int i = 1; i < group.count; ++i) {  // each rank begins with a different owner
    const int owner = (mine + i) % group.count;
    Add(program, Kind::kSend, group.at(owner), Segment(all, group.count, owner), label);
  }
}

// SendParts, and every member adds its segment.
void ScatterSums(Program& program, const RankGroup& group, int rank, Range all, int label) {
  SendParts(program, group, rank, all, label);
  AddSum(program, group, Segment(all, group.count, group.IndexOf(rank)), label);
}

// Member i sends segment i to all others, who receive it.
void SendSegment(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int mine = group.IndexOf(rank);
  for (int i = 1; i < group.count; ++i)
    Add(program, Kind::kSend, group.at((mine + i) % group.count), Segment(all, group.count, mine),
        label);
}

void ReceiveSegments(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int mine = group.IndexOf(rank);
  for (int i = 1; i < group.count; ++i) {
    const int owner = (mine + i) % group.count;
    Add(program, Kind::kReceive, group.at(owner), Segment(all, group.count, owner), label);
  }
}

void GatherSegments(Program& program, const RankGroup& group, int rank, Range all, int label) {
  SendSegment(program, group, rank, all, label);
  ReceiveSegments(program, group, rank, all, label);
}

// The first member of the group gets the sum.
void SumAtFirst(Program& program, const RankGroup& group, int rank, Range all, int label) {
  if (group.count == 1) return;
  if (rank == group.at(0)) {
    AddSum(program, group, all, label);
  } else {
    Add(program, Kind::kSend, group.at(0), all, label);
  }
}

// The first member of the group sends to all others.
void SpreadFromFirst(Program& program, const RankGroup& group, int rank, Range all, int label) {
  if (rank != group.at(0)) Add(program, Kind::kReceive, group.at(0), all, label);
  for (int i = 1; rank == group.at(0) && i < group.count; ++i)
    Add(program, Kind::kSend, group.at(i), all, label);
}

// The blocks of SumByHalving, largest first: ranks [first, first + size).
struct Block {
  int first, size;
};

std::vector<Block> Blocks(int ranks) {
  std::vector<Block> blocks;
  int first = 0;
  while (first < ranks) {
    const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - first)));
    blocks.push_back({first, size});
    first += size;
  }
  return blocks;
}

struct Halves {
  Range kept, given;
};

Halves Halve(Range range, bool keep_upper) {
  const int64_t middle = range.begin + (range.end - range.begin) / 2;
  const Range lower{range.begin, middle};
  const Range upper{middle, range.end};
  return keep_upper ? Halves{upper, lower} : Halves{lower, upper};
}

// What rank `i` of a block of `size` owns after halving.
Range Owned(Range all, int size, int i) {
  for (int distance = 1; distance < size; distance *= 2) all = Halve(all, (i & distance) != 0).kept;
  return all;
}

// `part` is the lower or the upper end of `whole`; returns the rest.
Range Rest(Range whole, Range part) {
  return part.begin == whole.begin ? Range{part.end, whole.end} : Range{whole.begin, part.begin};
}

Range Overlap(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Labels: steps of halving and of doubling, hand-over up and down; those of another range begin
// kLabels further.
constexpr int kHalve = 0, kDouble = 64, kUp = 128, kDown = 129, kLabels = 256;

// Seven ranks are blocks of 4, 2 and 1, as in the tree ((0+1)+(2+3)) + ((4+5)+6). A chunk has
// quarters q0 .. q3 and halves h0 = q0 q1, h1 = q2 q3; "0-1: h" means that ranks 0 and 1 swap
// halves and that each adds the one that it keeps.
//
//                block 0 1 2 3        block 4 5     block 6
//   halve        0-1: h    2-3: h     4-5: h
//                0-2: q    1-3: q
//   now own      0:q0 1:q2 2:q1 3:q3  4:h0 5:h1     6:all
//   up           6 sends h0 to 4 and h1 to 5, which add;
//                then 4 sends q0 to 0 and q1 to 2, 5 sends q2 to 1 and q3 to 3, which add
//   down         the same messages back, with the complete sums: 0 1 2 3 to 4 5, then 4 5 to 6
//   double       0-2: q    1-3: q     4-5: h
//                0-1: h    2-3: h
//
// After the halving step at distance d a rank has the sum of 2 d neighbours in the part that it
// keeps; the lower rank of a pair keeps the lower half.
void Halving(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const std::vector<Block> blocks = Blocks(group.count);
  const int place = group.IndexOf(rank);
  const auto mine = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
    return place < block.first + block.size;
  });
  const auto smaller = mine + 1;
  const int i = place - mine->first;

  Range owned = all;
  std::vector<Range> before;  // by halving step: what this rank owned before it
  for (int distance = 1; distance < mine->size; distance *= 2) {
    const int partner = group.at(mine->first + (i ^ distance));
    const int step = label + kHalve + Count(before);
    before.push_back(owned);
    const Halves halves = Halve(owned, (i & distance) != 0);
    Add(program, Kind::kSend, partner, halves.given, step);
    Add(program, Kind::kAdd, partner, halves.kept, step);
    owned = halves.kept;
  }
  // What this rank and the ranks of a neighbouring block both own.
  const auto hand_over = [&](const Block& other, Kind kind, int direction) {
    for (int j = 0; j < other.size; ++j)
      Add(program, kind, group.at(other.first + j), Overlap(owned, Owned(all, other.size, j)),
          label + direction);
  };
  if (smaller != blocks.end()) hand_over(*smaller, Kind::kAdd, kUp);
  if (mine != blocks.begin()) {
    hand_over(*(mine - 1), Kind::kSend, kUp);
    hand_over(*(mine - 1), Kind::kReceive, kDown);
  }
  if (smaller != blocks.end()) hand_over(*smaller, Kind::kSend, kDown);

  for (int step = Count(before); step-- > 0;) {
    const int partner = group.at(mine->first + (i ^ (1 << step)));
    Add(program, Kind::kSend, partner, owned, label + kDouble + step);
    Add(program, Kind::kReceive, partner, Rest(At(before, step), owned), label + kDouble + step);
    owned = At(before, step);
  }
}

// A part of the range that is in one segment on every host, so that the same ranks have it: ranges
// are cut where a segment of any host begins. Numbered from 1, equally on all ranks.
struct Common {
  int number;
  Range range;
  RankGroup holders;  // one rank of each host, in the order of the hosts
};

// Those that this rank holds.
std::vector<Common> CommonRanges(int rank, const HostLayout& hosts, Range all) {
  std::vector<int64_t> cuts;
  for (const std::vector<int>& host : hosts.by_host())
    for (int i = 0; i <= Count(host); ++i)
      cuts.push_back(SegmentBegin(all.begin, all.end, Count(host), i));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto holder = [&](const std::vector<int>& host, int64_t at) {
    int i = 0;
    while (Segment(all, Count(host), i).end <= at) ++i;
    return At(host, i);
  };
  std::vector<Common> ranges;
  for (int i = 0; i + 1 < Count(cuts); ++i) {
    const Range range{At(cuts, i), At(cuts, i + 1)};
    if (holder(hosts.ranks(hosts.host_of(rank)), range.begin) != rank) continue;
    std::vector<int> holders;
    for (const std::vector<int>& host : hosts.by_host())
      holders.push_back(holder(host, range.begin));
    ranges.push_back({i + 1, range, RankGroup::Of(holders)});
  }
  return ranges;
}

void SumByOwnersBetweenHosts(Program& program, int rank, const std::vector<Common>& ranges) {
  const auto label = [](const Common& common) { return common.number * kLabels; };
  for (const Common& common : ranges)
    SendParts(program, common.holders, rank, common.range, label(common));
  for (const Common& common : ranges) {
    const RankGroup& holders = common.holders;
    AddSum(program, holders, Segment(common.range, holders.count, holders.IndexOf(rank)),
           label(common));
    SendSegment(program, holders, rank, common.range, label(common) + 1);
  }
  for (const Common& common : ranges)
    ReceiveSegments(program, common.holders, rank, common.range, label(common) + 1);
}

// Up a binomial tree to the first member of the group.
void UpTree(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int place = group.IndexOf(rank);
  for (int distance = 1; distance < group.count; distance *= 2) {
    if (place & distance) return Add(program, Kind::kSend, group.at(place - distance), all, label);
    if (place + distance < group.count)
      Add(program, Kind::kAdd, group.at(place + distance), all, label);
  }
}

}  // namespace

int64_t SegmentBegin(int64_t begin, int64_t end, int size, int i) {
  const int64_t count = end - begin;
  return begin + count / size * i + std::min<int64_t>(i, count % size);
}

Program SumByAll(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  if (size == 1) return program;
  for (int i = 1; i < size; ++i) Add(program, Kind::kSend, (rank + i) % size, {begin, end}, 0);
  AddSum(program, {0, 1, size}, {begin, end}, 0);
  return program;
}

Program SumAtOwners(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  if (size > 1) ScatterSums(program, {0, 1, size}, rank, {begin, end}, 0);
  return program;
}

Program SpreadFromOwners(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  if (size > 1) GatherSegments(program, {0, 1, size}, rank, {begin, end}, 1);
  return program;
}

Program SumByOwners(int rank, int size, int64_t begin, int64_t end) {
  Program program = SumAtOwners(rank, size, begin, end);
  const Program spread = SpreadFromOwners(rank, size, begin, end);
  program.insert(program.end(), spread.begin(), spread.end());
  return program;
}

Program SumByHosts(int rank, int size, const HostLayout& hosts, BetweenHosts between, int64_t begin,
                   int64_t end) {
  if (!hosts.known()) return SumByOwners(rank, size, begin, end);
  Program program;
  const RankGroup host = HostOf(rank, hosts);
  const std::vector<Common> ranges = CommonRanges(rank, hosts, {begin, end});
  if (host.count > 1) ScatterSums(program, host, rank, {begin, end}, 0);
  if (between == BetweenHosts::kOwners) {
    SumByOwnersBetweenHosts(program, rank, ranges);
  } else {
    for (const Common& common : ranges)
      Halving(program, common.holders, rank, common.range, common.number * kLabels);
  }
  GatherSegments(program, host, rank, {begin, end}, 1);
  return program;
}

Program InOrderOf(const HostLayout& hosts, Program program) {
  if (hosts.is_rank_tree()) return program;
  const RankGroup all = RankGroup::InTreesOf(hosts);
  for (Operation& operation : program)
    if (operation.kind == Kind::kSum && operation.group.count == all.count) operation.group = all;
  return program;
}

Program PlainInsideHosts(const HostLayout& hosts, int rank, Program program) {
  const RankGroup host = HostOf(rank, hosts);
  for (Operation& operation : program) {
    const RankGroup& group = operation.group;
    operation.plain = operation.kind != Kind::kSum ? host.Has(operation.peer) : true;
    for (int i = 0; operation.kind == Kind::kSum && i < group.count; ++i)
      operation.plain &= host.Has(group.at(i));
  }
  return program;
}

Program SumByHalving(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  Halving(program, {0, 1, size}, rank, {begin, end}, 0);
  return program;
}

Program SumByDoubling(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  int label = 0;
  for (int length = 1; length < size; length *= 2, ++label) {
    const auto count = [&](int first) { return std::clamp(size - first, 0, length); };
    const int mine = rank / length * length;  // first rank of this block; `other`: of its neighbour
    const int other = mine ^ length;
    // The last block may be shorter: each of its ranks then sends to several of the neighbour's.
    for (int i = rank - mine; i < count(other); i += count(mine))
      Add(program, Kind::kSend, other + i, {begin, end}, label);
    if (count(other) > 0)
      Add(program, Kind::kAdd, other + (rank - mine) % count(other), {begin, end}, label);
  }
  return program;
}

Program GatherAtRoot(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end) {
  Program program;
  const RankGroup first = FirstRanks(size, hosts);
  SumAtFirst(program, HostOf(rank, hosts), rank, {begin, end}, 0);
  if (first.Has(rank)) SumAtFirst(program, first, rank, {begin, end}, 1);
  return program;
}

Program SpreadFromRoot(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end) {
  Program program;
  const RankGroup first = FirstRanks(size, hosts);
  if (first.Has(rank)) SpreadFromFirst(program, first, rank, {begin, end}, 0);
  SpreadFromFirst(program, HostOf(rank, hosts), rank, {begin, end}, 1);
  return program;
}

Program GatherWithTimeout(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  SumAtFirst(program, {0, 1, size}, rank, {begin, end}, 0);
  for (Operation& operation : program) operation.skips_late = operation.kind == Kind::kSum;
  return program;
}

Program SumWithTimeout(int rank, int size, int64_t begin, int64_t end) {
  Program program = GatherWithTimeout(rank, size, begin, end);
  SpreadFromFirst(program, {0, 1, size}, rank, {begin, end}, 1);
  return program;
}

Program SumUpTree(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end) {
  Program program;
  const RankGroup first = FirstRanks(size, hosts);
  UpTree(program, HostOf(rank, hosts), rank, {begin, end}, 0);
  if (first.Has(rank)) UpTree(program, first, rank, {begin, end}, 1);
  return program;
}

Program SpreadDownTree(int rank, int size, const HostLayout& hosts, int branches, int64_t begin,
                       int64_t end) {
  Program program;
  const auto spread = [&](const RankGroup& group, int label) {
    const int place = group.IndexOf(rank);
    if (place != 0)
      Add(program, Kind::kReceive, group.at((place - 1) / branches), {begin, end}, label);
    for (int child = place * branches + 1; child <= place * branches + branches; ++child)
      if (child < group.count) Add(program, Kind::kSend, group.at(child), {begin, end}, label);
  };
  const RankGroup first = FirstRanks(size, hosts);
  if (first.Has(rank)) spread(first, 0);
  spread(HostOf(rank, hosts), 1);
  return program;
}

}  // namespace carafe
