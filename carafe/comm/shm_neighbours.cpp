#include "carafe/comm/shm_neighbours.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/handshake.h"

namespace carafe {
namespace {

// What a segment begins with; the rings follow.
struct SegmentHeader {
  uint64_t cookie;
};
constexpr size_t kRingsBegin = 4096;

size_t SegmentBytes(size_t local_ranks) { return kRingsBegin + local_ranks * sizeof(ShmRing); }

// The messages of the handshake.
struct Introduction {
  char identity[504];
  int64_t pid;
};
struct Offer {
  int32_t descriptor;  // -1: there is no memory, see `problem`
  uint64_t cookie;
  char problem[240];
};
struct Result {
  char problem[256];  // "": all segments are open here
};

// Opens the segments of all ranks; returns the problem, or "".
std::string OpenSegments(const std::vector<Offer>& offers, ShmSegment mine, ShmNeighbours& all) {
  const size_t bytes = SegmentBytes(offers.size());
  all.segments.resize(offers.size());
  all.segments[all.mine] = std::move(mine);
  for (size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].descriptor < 0) return offers[i].problem;
    if (i == all.mine) continue;
    try {
      all.segments[i] =
          ShmSegment::Open(all.pids[i], offers[i].descriptor, bytes, ShmSegment::Access::kWrite);
    } catch (const CommError& error) {
      return error.what();
    }
    all.segments[i].CloseDescriptor();
    if (reinterpret_cast<SegmentHeader*>(all.segments[i].data())->cookie != offers[i].cookie)
      return fmt::format("the memory of rank {} belongs to another process", all.ranks[i]);
  }
  return "";
}

}  // namespace

ShmRing* RingTo(const ShmSegment& segment, size_t receiver) {
  return reinterpret_cast<ShmRing*>(segment.data() + kRingsBegin) + receiver;
}

ShmNeighbours FindNeighbours(Transport& transport, const ShmOptions& options) {
  Introduction mine = {};
  CopyText(mine.identity, options.identity);
  mine.pid = getpid();
  const std::vector<int> ranks = AllRanks(transport);
  const std::vector<Introduction> all = Handshake(transport, ranks, mine, options.wait);
  ShmNeighbours neighbours;
  for (int r : ranks) {
    const Introduction& other = At(all, r);
    const bool local = *mine.identity && std::strcmp(other.identity, mine.identity) == 0;
    if (!local) continue;
    if (r == transport.rank()) neighbours.mine = neighbours.ranks.size();
    neighbours.ranks.push_back(r);
    neighbours.pids.push_back(other.pid);
  }
  return neighbours;
}

// Every rank makes memory for what it sends, opens that of the others, and reports whether it
// could.
std::string ShareSegments(Transport& transport, const ShmOptions& options,
                          ShmNeighbours& neighbours) {
  Offer offer = {.descriptor = -1, .cookie = 0, .problem = {}};
  ShmSegment mine;
  try {
    mine = options.make(SegmentBytes(neighbours.ranks.size()));
    std::random_device random;
    offer.descriptor = mine.descriptor();
    offer.cookie = uint64_t{random()} << 32 | random();
    reinterpret_cast<SegmentHeader*>(mine.data())->cookie = offer.cookie;
  } catch (const std::exception& error) {
    CopyText(offer.problem, error.what());
  }
  const std::vector<Offer> offers = Handshake(transport, neighbours.ranks, offer, options.wait);
  Result result = {};
  CopyText(result.problem, OpenSegments(offers, std::move(mine), neighbours));
  const std::vector<Result> results = Handshake(transport, neighbours.ranks, result, options.wait);
  neighbours.segments[neighbours.mine].CloseDescriptor();
  for (const Result& r : results)
    if (*r.problem) return r.problem;
  return "";
}

}  // namespace carafe
