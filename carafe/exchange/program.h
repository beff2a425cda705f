// An algorithm as data. A program is a list of operations for one rank: how one chunk of a sum or
// of a broadcast moves. Every algorithm is a function that writes programs; the engine runs them
// and knows no algorithm. The programs of all ranks match: what one sends, another expects under
// the same label.
//
// Every sum is that of the fixed tree of the layout (host_layout.h), or of the fixed tree over all
// ranks where there is no layout: a rank that adds always adds whole subtrees, the lower one first.
#pragma once

#include <cstdint>
#include <vector>

#include "carafe/exchange/host_layout.h"
#include "carafe/exchange/rank_group.h"

namespace carafe {

struct Operation {
  enum class Kind {
    kSend,     // elements [begin, end) to `peer`
    kAdd,      // [begin, end) += what `peer` sends
    kReceive,  // [begin, end) = what `peer` sends
    kSum,      // [begin, end) = the tree sum over the group: our part, and a message of each other
  };
  Kind kind;
  int peer;  // -1 for kSum
  int64_t begin, end;
  int label;             // distinguishes the messages of one chunk between the same two ranks
  RankGroup group = {};  // for kSum; contains this rank
  // For kSum: parts that have not arrived at Engine::OnTimeout are left out, and are added in the
  // next step together with that step's part; no rank is left out twice in a row. The sum is scaled
  // up as if all had arrived, so that its mean is that of the parts in it.
  bool skips_late = false;
  bool plain = false;  // not encoded, even if the transfer has a codec (codec.h): inside a host
  bool Expects(int from) const {
    return kind == Kind::kSum ? group.Has(from) : kind != Kind::kSend && peer == from;
  }
};

using Program = std::vector<Operation>;

// Segment i of [begin, end) divided evenly among `size` owners begins here.
int64_t SegmentBegin(int64_t begin, int64_t end, int size, int i);

// Costs: P ranks, n bytes in the chunk; bytes are those that one rank sends.

// ---- Sums that end on every rank ----

// Every rank sends everything to every other and adds: 1 message time, (P-1) n bytes. For tiny
// sums.
Program SumByAll(int rank, int size, int64_t begin, int64_t end);
// SumAtOwners, then SpreadFromOwners: 2 message times and 2 n (P-1)/P bytes for any number of
// ranks, but 2 (P-1) messages.
Program SumByOwners(int rank, int size, int64_t begin, int64_t end);
// Recursive halving and doubling inside blocks of powers of two (7 = 4 + 2 + 1): 2 log P message
// times, and 2 n (P-1)/P bytes for powers of two. A drawing is in program.cpp.
Program SumByHalving(int rank, int size, int64_t begin, int64_t end);
// Recursive doubling, blocks of 1, 2, 4, .. neighbours swap their sums: log P message times and
// messages, n log P bytes for powers of two. For short sums on many ranks.
Program SumByDoubling(int rank, int size, int64_t begin, int64_t end);
// Hosts first, for any layout: a segment for each rank of a host is summed inside the host, then
// among the ranks that have it on the other hosts, by owners or by halving, then handed back.
// 2 n (H-1)/H bytes leave each of the H hosts by owners, instead of as much for each of its ranks.
enum class BetweenHosts { kOwners, kHalving };
Program SumByHosts(int rank, int size, const HostLayout& hosts, BetweenHosts between, int64_t begin,
                   int64_t end);
// The same program, whose sums over all ranks have the order of the layout.
Program InOrderOf(const HostLayout& hosts, Program program);
// The same program of a rank, where messages and sums inside its host are not encoded.
Program PlainInsideHosts(const HostLayout& hosts, int rank, Program program);

// ---- Sharded: rank i owns segment i of the chunk ----

// Every rank's parts go straight to the owners, who add: 1 message time, n (P-1)/P bytes.
Program SumAtOwners(int rank, int size, int64_t begin, int64_t end);
// Every owner's segment goes to all others: 1 message time, n (P-1)/P bytes.
Program SpreadFromOwners(int rank, int size, int64_t begin, int64_t end);

// ---- Sums that end on rank 0, and values that go out from there ----

// caffe-parallel: each host's sum to rank 0, or every rank's without a layout. n bytes.
Program GatherAtRoot(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end);
Program SpreadFromRoot(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end);
// GatherAtRoot without hosts, where late ranks may be left out.
Program GatherWithTimeout(int rank, int size, int64_t begin, int64_t end);
// The same, and rank 0 sends the sum to all.
Program SumWithTimeout(int rank, int size, int64_t begin, int64_t end);
// CaffeGPI: up a binomial tree inside every host, then up one over the first ranks of all hosts;
// down a tree with `branches` children per node, to the first ranks, then inside the hosts.
Program SumUpTree(int rank, int size, const HostLayout& hosts, int64_t begin, int64_t end);
Program SpreadDownTree(int rank, int size, const HostLayout& hosts, int branches, int64_t begin,
                       int64_t end);

// [0, count) cut in chunks of at most `chunk` elements, a program for each.
template <typename F>
std::vector<Program> Cut(int64_t count, int64_t chunk, const F& program) {
  std::vector<Program> programs;
  for (int64_t begin = 0; begin < count; begin += chunk)
    programs.push_back(program(begin, begin + chunk < count ? begin + chunk : count));
  return programs;
}

}  // namespace carafe
