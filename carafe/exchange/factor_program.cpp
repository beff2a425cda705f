#include "carafe/exchange/factor_program.h"

#include <algorithm>

#include "carafe/base/index.h"

namespace carafe {
namespace {

using Kind = Operation::Kind;

struct Piece {
  int64_t begin, end;  // empty where a part has fewer pieces than another
};

void Add(Program& program, Kind kind, int peer, const Piece& piece, int label) {
  if (piece.begin < piece.end) program.push_back({kind, peer, piece.begin, piece.end, label});
}

// Labels between two ranks: the sender's own piece, or, inside a host, that of a rank of another
// host that the sender passes on.
constexpr int kOwn = 0;
int PassedOn(int owner) { return 1 + owner; }

// The place, among the ranks of a host, of who receives a piece from the rank at `place` of
// another.
int ReceiverPlace(const std::vector<int>& host, int place) { return place % Count(host); }

// One piece of every rank's part.
Program GatherPieces(int rank, const RanksByHost& hosts, const std::vector<Piece>& pieces) {
  const int mine = static_cast<int>(
      std::ranges::find_if(hosts, [&](const auto& h) { return std::ranges::count(h, rank) > 0; }) -
      hosts.begin());
  const std::vector<int>& here = At(hosts, mine);
  const int place = static_cast<int>(std::ranges::find(here, rank) - here.begin());
  Program program;
  const auto send_inside = [&](int owner, int label) {
    for (int i = 1; i < Count(here); ++i)
      Add(program, Kind::kSend, At(here, (place + i) % Count(here)), At(pieces, owner), label);
  };
  // Calls f(owner) for the ranks of other hosts whose pieces go to this place of this host.
  const auto for_owners = [&](int receiver, const auto& f) {
    for (int i = 1; i < Count(hosts); ++i) {
      const std::vector<int>& there = At(hosts, (mine + Count(hosts) - i) % Count(hosts));
      for (int p = 0; p < Count(there); ++p)
        if (ReceiverPlace(here, p) == receiver) f(At(there, p));
    }
  };
  for (int i = 1; i < Count(hosts); ++i) {  // every rank begins with another host
    const std::vector<int>& there = At(hosts, (mine + i) % Count(hosts));
    Add(program, Kind::kSend, At(there, ReceiverPlace(there, place)), At(pieces, rank), kOwn);
  }
  send_inside(rank, kOwn);
  for_owners(place, [&](int owner) {
    Add(program, Kind::kReceive, owner, At(pieces, owner), kOwn);
    send_inside(owner, PassedOn(owner));
  });
  for (int i = 1; i < Count(here); ++i) {
    const int peer = (place + i) % Count(here);
    Add(program, Kind::kReceive, At(here, peer), At(pieces, At(here, peer)), kOwn);
    for_owners(peer, [&](int owner) {
      Add(program, Kind::kReceive, At(here, peer), At(pieces, owner), PassedOn(owner));
    });
  }
  return program;
}

}  // namespace

std::vector<Program> GatherParts(int rank, const RanksByHost& hosts, std::span<const int64_t> parts,
                                 int64_t message) {
  RanksByHost layout = hosts;
  for (int r = 0; hosts.empty() && r < Count(parts); ++r) layout.push_back({r});
  const int64_t longest = parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end());
  return Cut(longest, std::max<int64_t>(message, 1), [&](int64_t begin, int64_t end) {
    std::vector<Piece> pieces;
    int64_t first = 0;
    for (const int64_t part : parts) {
      pieces.push_back({first + std::min(begin, part), first + std::min(end, part)});
      first += part;
    }
    return GatherPieces(rank, layout, pieces);
  });
}

}  // namespace carafe
