#include "carafe/exchange/program.h"

#include <algorithm>
#include <bit>

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

RankGroup HostOf(int rank, int local) { return {rank / local * local, 1, local}; }

Range Piece(Range all, int count, int i) {
  return {PieceBegin(all.begin, all.end, count, i), PieceBegin(all.begin, all.end, count, i + 1)};
}

// A segment per member goes to its owner, who adds; the owner's own sum is left in place.
void ScatterSums(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int mine = group.PlaceOf(rank);
  for (int i = 1; i < group.count; ++i) {  // everyone begins with another owner
    const int owner = (mine + i) % group.count;
    Add(program, Kind::kSend, group.at(owner), Piece(all, group.count, owner), label);
  }
  AddSum(program, group, Piece(all, group.count, mine), label);
}

// Every member's segment to all others.
void GatherSegments(Program& program, const RankGroup& group, int rank, Range all, int label) {
  const int mine = group.PlaceOf(rank);
  for (int i = 1; i < group.count; ++i)
    Add(program, Kind::kSend, group.at((mine + i) % group.count), Piece(all, group.count, mine),
        label);
  for (int i = 1; i < group.count; ++i) {
    const int owner = (mine + i) % group.count;
    Add(program, Kind::kPlace, group.at(owner), Piece(all, group.count, owner), label);
  }
}

// The first of the group gets the sum, or gives to all others.
void SumAtFirst(Program& program, const RankGroup& group, int rank, Range all, int label) {
  if (group.count == 1) return;
  if (rank == group.first) {
    AddSum(program, group, all, label);
  } else {
    Add(program, Kind::kSend, group.first, all, label);
  }
}

void SpreadFromFirst(Program& program, const RankGroup& group, int rank, Range all, int label) {
  if (rank != group.first) Add(program, Kind::kPlace, group.first, all, label);
  for (int i = 1; rank == group.first && i < group.count; ++i)
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

// What rank `i` of a block of `size` owns after halving: at distance 1 the lower keeps the lower
// half, and so on, so the bits of i are read from the lowest to the highest.
Range Owned(Range all, int size, int i) {
  for (int distance = 1; distance < size; distance *= 2) {
    const int64_t middle = all.begin + (all.end - all.begin) / 2;
    if (i & distance) {
      all.begin = middle;
    } else {
      all.end = middle;
    }
  }
  return all;
}

Range Overlap(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Labels: steps of halving and of doubling, hand-over up and down.
constexpr int kHalve = 0, kDouble = 64, kUp = 128, kDown = 129;

}  // namespace

int64_t PieceBegin(int64_t begin, int64_t end, int size, int i) {
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

Program SumByOwners(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  if (size == 1) return program;
  ScatterSums(program, {0, 1, size}, rank, {begin, end}, 0);
  GatherSegments(program, {0, 1, size}, rank, {begin, end}, 1);
  return program;
}

Program SumByHosts(int rank, int size, int local, int64_t begin, int64_t end) {
  Program program;
  const RankGroup host = HostOf(rank, local);
  const RankGroup alike{rank - host.first, local, size / local};  // has this segment on every host
  const Range mine = Piece({begin, end}, local, rank - host.first);
  ScatterSums(program, host, rank, {begin, end}, 0);
  ScatterSums(program, alike, rank, mine, 1);
  GatherSegments(program, alike, rank, mine, 2);
  GatherSegments(program, host, rank, {begin, end}, 3);
  return program;
}

Program SumByHalving(int rank, int size, int64_t begin, int64_t end) {
  const std::vector<Block> blocks = Blocks(size);
  const auto mine = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
    return rank < block.first + block.size;
  });
  const Range all{begin, end};
  const int i = rank - mine->first;
  Program program;
  // Inside the block: after the step at distance d everyone has the sum of 2 d neighbours.
  Range range = all;
  int step = 0;
  for (int distance = 1; distance < mine->size; distance *= 2, ++step) {
    const int peer = mine->first + (i ^ distance);
    const int64_t middle = range.begin + (range.end - range.begin) / 2;
    const Range lower{range.begin, middle};
    const Range upper{middle, range.end};
    const bool keep_upper = (i & distance) != 0;
    Add(program, Kind::kSend, peer, keep_upper ? lower : upper, kHalve + step);
    range = keep_upper ? upper : lower;
    Add(program, Kind::kAdd, peer, range, kHalve + step);
  }
  // The next smaller block, itself with the sums of all smaller ones, hands its sums to this one,
  // which hands them to the next larger: (4 + (2 + 1)), as in the tree.
  const auto exchange_with = [&](const Block& other, Kind kind, int label) {
    for (int j = 0; j < other.size; ++j)
      Add(program, kind, other.first + j, Overlap(range, Owned(all, other.size, j)), label);
  };
  const auto smaller = mine + 1;
  if (smaller != blocks.end()) exchange_with(*smaller, Kind::kAdd, kUp);
  if (mine != blocks.begin()) {
    exchange_with(*(mine - 1), Kind::kSend, kUp);
    exchange_with(*(mine - 1), Kind::kPlace, kDown);
  }
  if (smaller != blocks.end()) exchange_with(*smaller, Kind::kSend, kDown);
  // Doubling: the same steps backwards.
  for (int distance = mine->size / 2; distance >= 1; distance /= 2) {
    --step;
    const int peer = i ^ distance;
    Range theirs = all;  // what both have together after this step, less what is here already
    for (int d = 1; d < distance; d *= 2) {
      const int64_t middle = theirs.begin + (theirs.end - theirs.begin) / 2;
      if (i & d) {
        theirs.begin = middle;
      } else {
        theirs.end = middle;
      }
    }
    const Range both = theirs;
    theirs =
        range.begin == both.begin ? Range{range.end, both.end} : Range{both.begin, range.begin};
    Add(program, Kind::kSend, mine->first + peer, range, kDouble + step);
    Add(program, Kind::kPlace, mine->first + peer, theirs, kDouble + step);
    range = both;
  }
  return program;
}

Program SumByDoubling(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  int label = 0;
  for (int length = 1; length < size; length *= 2, ++label) {
    const auto count = [&](int first) { return std::clamp(size - first, 0, length); };
    const int mine = rank / length * length;  // first rank of this block, and of its neighbour
    const int other = mine ^ length;
    // The last block may be shorter: its ranks then give to several of the neighbour's.
    for (int i = rank - mine; i < count(other); i += count(mine))
      Add(program, Kind::kSend, other + i, {begin, end}, label);
    if (count(other) > 0)
      Add(program, Kind::kAdd, other + (rank - mine) % count(other), {begin, end}, label);
  }
  return program;
}

Program GatherAtRoot(int rank, int size, int local, int64_t begin, int64_t end) {
  Program program;
  SumAtFirst(program, HostOf(rank, local), rank, {begin, end}, 0);
  if (rank % local == 0) SumAtFirst(program, {0, local, size / local}, rank, {begin, end}, 1);
  return program;
}

Program SpreadFromRoot(int rank, int size, int local, int64_t begin, int64_t end) {
  Program program;
  if (rank % local == 0) SpreadFromFirst(program, {0, local, size / local}, rank, {begin, end}, 0);
  SpreadFromFirst(program, HostOf(rank, local), rank, {begin, end}, 1);
  return program;
}

Program GatherInTime(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  SumAtFirst(program, {0, 1, size}, rank, {begin, end}, 0);
  for (Operation& operation : program) operation.timely = operation.kind == Kind::kSum;
  return program;
}

Program SumInTime(int rank, int size, int64_t begin, int64_t end) {
  Program program = GatherInTime(rank, size, begin, end);
  SpreadFromFirst(program, {0, 1, size}, rank, {begin, end}, 1);
  return program;
}

Program SumUpTree(int rank, int size, int64_t begin, int64_t end) {
  Program program;
  for (int distance = 1; distance < size; distance *= 2) {
    if (rank & distance) {
      Add(program, Kind::kSend, rank - distance, {begin, end}, 0);
      break;
    }
    if (rank + distance < size) Add(program, Kind::kAdd, rank + distance, {begin, end}, 0);
  }
  return program;
}

Program SpreadDownTree(int rank, int size, int local, int branches, int64_t begin, int64_t end) {
  Program program;
  const auto spread = [&](const RankGroup& group, int label) {
    const int place = group.PlaceOf(rank);
    if (place != 0)
      Add(program, Kind::kPlace, group.at((place - 1) / branches), {begin, end}, label);
    for (int child = place * branches + 1; child <= place * branches + branches; ++child)
      if (child < group.count) Add(program, Kind::kSend, group.at(child), {begin, end}, label);
  };
  if (rank % local == 0) spread({0, local, size / local}, 0);
  spread(HostOf(rank, local), 1);
  return program;
}

int64_t SentBy(const Program& program) {
  int64_t sent = 0;
  for (const Operation& operation : program)
    if (operation.kind == Kind::kSend) sent += operation.end - operation.begin;
  return sent;
}

}  // namespace carafe
