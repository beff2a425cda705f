// How one chunk travels, as a list of operations for one rank. Every algorithm is a function that
// writes such lists; the engine runs them and knows no algorithm. The lists of all ranks fit each
// other: what one sends, another expects under the same label.
//
// All sums come out in the fixed tree over the ranks (core/tree_sum.h): whoever adds, adds whole
// aligned subtrees, the lower one first.
#pragma once

#include <cstdint>
#include <vector>

namespace carafe {

// Ranks first, first + stride, ..: all of them, those of one host, or one of each host.
struct RankGroup {
  int first = 0, stride = 1, count = 0;
  int at(int i) const { return first + i * stride; }
  int PlaceOf(int rank) const { return (rank - first) / stride; }
  bool Has(int rank) const {
    return rank >= first && (rank - first) % stride == 0 && PlaceOf(rank) < count;
  }
};

struct Operation {
  enum class Kind {
    kSend,   // elements [begin, end) to `peer`
    kAdd,    // [begin, end) += what `peer` sends
    kPlace,  // [begin, end) = what `peer` sends
    kSum,    // [begin, end) = the tree sum of the group's parts: ours, and a message of each other
  };
  Kind kind;
  int peer;  // -1 for kSum
  int64_t begin, end;
  int label;             // tells apart the messages of one chunk between the same two ranks
  RankGroup group = {};  // of kSum; this rank is one of them
  // Of kSum: whoever has not come when the time is up (Engine::OnTimeUp) is left out, and counts in
  // the next step beside what it sends then; nobody is left out twice in a row. The sum is scaled
  // to what it would be if all were there: the mean is that of those that came.
  bool timely = false;
  bool Awaits(int from) const {
    return kind == Kind::kSum ? group.Has(from) : kind != Kind::kSend && peer == from;
  }
};

using Program = std::vector<Operation>;

// Which part of a chunk each of `size` owners has: piece `i` of [begin, end) cut in `size`.
int64_t PieceBegin(int64_t begin, int64_t end, int size, int i);

// ---- Sums that end on every rank ----

// Everyone sends all to everyone and adds: one message time, (P-1) n bytes. For what is tiny.
Program SumByAll(int rank, int size, int64_t begin, int64_t end);
// A segment per rank; parts go straight to its owner, who adds and sends the sum to all: two
// message times and 2 n (P-1)/P bytes for any number of ranks, but 2 (P-1) messages.
Program SumByOwners(int rank, int size, int64_t begin, int64_t end);
// Halving and doubling inside blocks of powers of two (7 = 4 + 2 + 1), the smaller block handing
// its sums to the larger: 2 log P message times, 2 n (P-1)/P bytes for powers of two.
Program SumByHalving(int rank, int size, int64_t begin, int64_t end);

// Blocks of 1, 2, 4, .. neighbours swap their sums: log P message times, messages and n log P bytes
// for powers of two. For what is short, on several ranks.
Program SumByDoubling(int rank, int size, int64_t begin, int64_t end);

// By hosts of `local` neighbouring ranks each, a power of two: a segment per rank of a host is
// summed inside the host, then among the ranks that have it on the other hosts, then handed back.
// Between hosts travel 2 n (H-1)/H bytes per host, instead of as much for every rank of it.
Program SumByHosts(int rank, int size, int local, int64_t begin, int64_t end);

// ---- Sums that end on rank 0, and values that go out from there ----

// caffe-parallel: all to rank 0; with several ranks on a host (`local` > 1, as above) their sum.
Program GatherAtRoot(int rank, int size, int local, int64_t begin, int64_t end);
Program SpreadFromRoot(int rank, int size, int local, int64_t begin, int64_t end);
// The same without hosts, where late ranks may be left out.
Program GatherInTime(int rank, int size, int64_t begin, int64_t end);
// Both in one: the sum of those that came goes to all.
Program SumInTime(int rank, int size, int64_t begin, int64_t end);
// CaffeGPI: up a binomial tree (whose lower branches are the hosts), down a tree of `branches`, to
// the first rank of every host, and inside the hosts again.
Program SumUpTree(int rank, int size, int64_t begin, int64_t end);
Program SpreadDownTree(int rank, int size, int local, int branches, int64_t begin, int64_t end);

// Elements that this program sends.
int64_t SentBy(const Program& program);

// [0, count) cut in chunks of at most `chunk` elements, a program for each.
template <typename F>
std::vector<Program> Cut(int64_t count, int64_t chunk, const F& program) {
  std::vector<Program> programs;
  for (int64_t begin = 0; begin < count; begin += chunk)
    programs.push_back(program(begin, begin + chunk < count ? begin + chunk : count));
  return programs;
}

}  // namespace carafe
