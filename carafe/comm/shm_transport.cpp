#include "carafe/comm/shm_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/set_up.h"
#include "carafe/comm/shm_lane.h"
#include "carafe/comm/tags.h"
#include "carafe/core/shareable_memory.h"

namespace carafe {
namespace {

// Shorter contents are copied: who shows one has to look once more whether it was read.
constexpr size_t kLeastShown = size_t{32} << 10;
constexpr size_t kMostViews = 2;           // of a peer's memory, unless more are in use
constexpr int kMostHeld = kLaneSlots / 2;  // slots with what nobody awaits yet, or what is lent

// What a rank's segment begins with; a lane to every local rank follows (its own stays empty).
struct SegmentHeader {
  uint64_t cookie;
};
constexpr size_t kLanesBegin = 4096;

size_t SegmentBytes(size_t local_ranks) { return kLanesBegin + local_ranks * sizeof(Lane); }
Lane* LaneTo(const ShmSegment& segment, size_t local_rank) {
  return reinterpret_cast<Lane*>(segment.data() + kLanesBegin) + local_rank;
}

// The ranks of this host, as the set-up left them.
struct Neighbours {
  std::vector<int> ranks;            // this one among them
  std::vector<ShmSegment> segments;  // by place in ranks
  std::vector<int64_t> pids;
  size_t mine = 0;  // this rank's place
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<Transport> inner, Neighbours neighbours)
      : inner_(std::move(inner)),
        segments_(std::move(neighbours.segments)),
        peer_of_(static_cast<size_t>(inner_->size()), -1),
        peers_(neighbours.ranks.size()) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i == neighbours.mine) continue;
      peer_of_[static_cast<size_t>(neighbours.ranks[i])] = static_cast<int>(i);
      peers_[i].rank = neighbours.ranks[i];
      peers_[i].out = LaneWriter(LaneTo(segments_[neighbours.mine], i));
      peers_[i].in = LaneReader(LaneTo(segments_[i], neighbours.mine));
      peers_[i].pid = neighbours.pids[i];
      if (neighbours.pids[i] != getpid()) peers_[i].process = ProcessWatch(neighbours.pids[i]);
    }
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host() const override { return inner_->host(); }
  std::string way() const override {
    const bool all_here = static_cast<int>(peers_.size()) == size();
    return all_here ? "shared memory"
                    : fmt::format("shared memory inside this host, {} to others", inner_->way());
  }

  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const int p = PeerOf(to);
    if (p < 0) return inner_->Send(to, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a message that is too long");
    Peer& peer = peers_[static_cast<size_t>(p)];
    Outgoing message{0, tag, static_cast<const char*>(data), bytes, 0};
    Flush(peer);
    const bool left = !IsQueued(peer, tag) && Push(peer, message);
    if (left && message.place < 0) return 0;
    message.request = Begin(p, tag, false);
    OpenOf(message.request).slot = message.place;
    if (!left) peer.outgoing.push_back(message);
    return message.request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    const int p = PeerOf(from);
    if (p < 0) return inner_->Receive(from, tag, data, bytes);
    return Want(p, {0, tag, static_cast<char*>(data), bytes, 0, false});
  }
  bool BuffersSends(int peer) const override {
    return PeerOf(peer) < 0 && inner_->BuffersSends(peer);
  }
  size_t ShortMessage(int peer) const override {
    return PeerOf(peer) < 0 ? inner_->ShortMessage(peer) : 0;
  }
  Request ReceiveShort(int from, int tag, void* data, size_t most, size_t* got) override {
    Ensure(PeerOf(from) < 0, "a short message of a rank of this host");
    return inner_->ReceiveShort(from, tag, data, most, got);
  }
  bool CanLend(int from, size_t bytes) const override {
    const int p = PeerOf(from);
    if (p < 0 || bytes <= kLetterBytes) return false;
    const Peer& peer = peers_[static_cast<size_t>(p)];
    return peer.shows || (bytes <= kLaneSlotBytes && peer.kept < kMostHeld);
  }
  Request Borrow(int from, int tag, size_t bytes) override {
    const int p = PeerOf(from);
    Ensure(p >= 0, "a loan of a rank of another host");
    return Want(p, {0, tag, nullptr, bytes, 0, true});
  }
  const void* Lent(Request request) const override { return OpenOf(request).lent; }
  void Return(Request request) override {
    Open& open = OpenOf(request);
    Peer& peer = peers_[static_cast<size_t>(open.peer)];
    if (open.slot >= 0) peer.in.ReturnSlot(open.slot);
    --peer.kept;
    --peer.loans;
    open.copy = {};
    Forget(request);
  }
  bool Done(Request request) override {
    if (request == 0) return true;
    if (!(request & kOurs)) return inner_->Done(request);
    Open* open = &OpenOf(request);
    if (!open->done && open->error.empty()) {
      Peer& peer = peers_[static_cast<size_t>(open->peer)];
      if (open->is_receive) {
        const bool asks_for_life = open->tag == kControlTag;
        // Looked at before the lane: what it wrote before its end still counts.
        const bool ended = asks_for_life && peer.process.ended();
        Drain(peer);
        open = &OpenOf(request);
        if (ended && !open->done)
          throw CommError(fmt::format("the process of rank {} has ended", peer.rank), "");
      } else if (open->slot < 0) {
        Flush(peer);
      } else if (!peer.out.IsLent(open->slot)) {
        peer.showing &= ~PlaceBit(open->slot);
        open->done = true;
      }
    }
    if (!open->error.empty()) throw CommError(open->error, "");
    if (!open->done) return false;
    if (!open->lent) Forget(request);  // a loan is forgotten when it is returned
    return true;
  }
  bool any_thread() const override { return inner_->any_thread(); }
  bool shares_memory() const override { return true; }
  void Finish() override { inner_->Finish(); }
  void Abort(const std::string& message) noexcept override { inner_->Abort(message); }

 private:
  static constexpr Request kOurs = Request{1} << 63;
  struct Outgoing {
    Request request;
    int tag;
    const char* data;
    size_t bytes;
    size_t sent;
    int place = -1;  // where it was shown instead of copied
  };
  struct Wanted {
    Request request;
    int tag;
    char* data;
    size_t bytes;
    size_t got;
    bool borrow;
  };
  struct Held {  // has come before anybody wanted it
    Letter letter;
    std::vector<char> copy;  // of content that is not in a slot any more
  };
  struct View {  // of memory of a peer
    uint64_t id;
    ShmSegment memory;
  };
  struct Peer {
    int rank = -1;
    int64_t pid = 0;
    LaneWriter out;
    LaneReader in;
    ProcessWatch process;
    std::deque<Outgoing> outgoing;
    std::deque<Wanted> wanted;
    std::deque<Held> held;
    int kept = 0;             // slots in `held`, and loans that are asked for or under way
    int loans = 0;            // that have come and are not returned
    bool shows = false;       // its last long message stayed where it was
    uint32_t showing = 0;     // places of this rank's that it has, or had: bits
    std::vector<View> views;  // the newest last
  };
  struct Open {
    bool done = false;
    bool is_receive = false;
    int peer = 0;
    int tag = 0;
    int slot = -1;               // of a loan, unless it lies in `copy`; of what is shown, its place
    const void* lent = nullptr;  // not null: a loan that has come
    std::vector<char> copy;
    std::string error;
  };

  int PeerOf(int rank) const {
    Ensure(rank >= 0 && rank < size(), "a message to nowhere");
    return peer_of_[static_cast<size_t>(rank)];
  }
  Open& OpenOf(Request request) { return open_[(request & ~kOurs) - 1]; }
  const Open& OpenOf(Request request) const { return open_[(request & ~kOurs) - 1]; }
  Request Begin(int peer, int tag, bool is_receive) {
    if (unused_.empty()) {
      open_.emplace_back();
      unused_.push_back(open_.size());
    }
    const Request request = unused_.back() | kOurs;
    unused_.pop_back();
    Open& open = OpenOf(request);
    open.done = false;
    open.is_receive = is_receive;
    open.peer = peer;
    open.tag = tag;
    open.slot = -1;
    open.lent = nullptr;
    return request;
  }
  void Forget(Request request) { unused_.push_back(request & ~kOurs); }

  // ---- Sending ----

  static bool IsQueued(const Peer& peer, int tag) {
    return std::any_of(peer.outgoing.begin(), peer.outgoing.end(),
                       [&](const Outgoing& message) { return message.tag == tag; });
  }
  // Whether all of the message has left; puts as much as there is room for.
  static bool Push(Peer& peer, Outgoing& message) {
    if (message.bytes <= kLetterBytes)
      return peer.out.TryWrite({message.tag, -1, message.bytes, 0, message.bytes}, message.data);
    if (message.sent == 0 && Show(peer, message)) return true;
    while (message.sent < message.bytes) {
      const int slot = peer.out.FindSlot();
      if (slot < 0) return false;
      const size_t length = std::min(kLaneSlotBytes, message.bytes - message.sent);
      if (!peer.out.TryLend({message.tag, slot, message.bytes, message.sent, length},
                            message.data + message.sent))
        return false;
      message.sent += length;
    }
    return true;
  }
  // Shareable memory is read where it lies: the message is done when the receiver has done with it.
  static bool Show(Peer& peer, Outgoing& message) {
    if (message.bytes < kLeastShown) return false;
    const auto memory = FindShareable(message.data, message.bytes);
    if (!memory) return false;
    // A place is taken until somebody has been told that its message is done.
    int place = kLaneSlots;
    while (place < kLaneSlots + kLanePlaces && (peer.showing & PlaceBit(place)) != 0) ++place;
    if (place == kLaneSlots + kLanePlaces) return false;
    const bool shown = peer.out.TryShow({.tag = message.tag,
                                         .slot = place,
                                         .bytes = message.bytes,
                                         .length = message.bytes,
                                         .at = static_cast<uint64_t>(message.data - memory->begin),
                                         .memory_id = memory->id,
                                         .memory_bytes = memory->bytes,
                                         .memory_descriptor = memory->descriptor});
    if (!shown) return false;
    message.place = place;
    peer.showing |= PlaceBit(place);
    return true;
  }
  static uint32_t PlaceBit(int slot) { return uint32_t{1} << (slot - kLaneSlots); }
  // Messages of one tag stay in order; a short one passes a long one of another tag that waits for
  // a slot, so signs of life always get through.
  void Flush(Peer& peer) {
    if (peer.outgoing.empty()) return;
    std::vector<int> stuck;
    for (auto message = peer.outgoing.begin(); message != peer.outgoing.end();) {
      const bool blocked = std::find(stuck.begin(), stuck.end(), message->tag) != stuck.end();
      if (!blocked && Push(peer, *message)) {
        OpenOf(message->request).done = message->place < 0;
        OpenOf(message->request).slot = message->place;
        message = peer.outgoing.erase(message);
        continue;
      }
      if (!blocked) stuck.push_back(message->tag);
      ++message;
    }
  }

  // ---- Receiving ----

  Request Want(int p, Wanted wanted) {
    Ensure(wanted.bytes <= kMaxBytes, "a receive that is too long");
    Peer& peer = peers_[static_cast<size_t>(p)];
    wanted.request = Begin(p, wanted.tag, true);
    if (wanted.borrow) ++peer.kept;
    const bool first = std::none_of(peer.wanted.begin(), peer.wanted.end(),
                                    [&](const Wanted& other) { return other.tag == wanted.tag; });
    peer.wanted.push_back(wanted);
    if (!first) return wanted.request;
    for (auto held = peer.held.begin(); held != peer.held.end();) {
      const auto taker = FindWanted(peer, held->letter.tag);
      if (held->letter.tag != wanted.tag || taker == peer.wanted.end()) {
        ++held;
        continue;
      }
      if (held->letter.slot >= 0 && !held->letter.stays()) --peer.kept;
      Deliver(peer, taker, held->letter, &held->copy);
      held = peer.held.erase(held);
    }
    return wanted.request;
  }
  static std::deque<Wanted>::iterator FindWanted(Peer& peer, int tag) {
    return std::find_if(peer.wanted.begin(), peer.wanted.end(),
                        [&](const Wanted& wanted) { return wanted.tag == tag; });
  }
  void Drain(Peer& peer) {
    while (const Letter* next = peer.in.Peek()) {
      const auto taker = FindWanted(peer, next->tag);
      if (taker != peer.wanted.end()) {
        Deliver(peer, taker, *next, nullptr);
      } else {
        Hold(peer, *next);
      }
      peer.in.Pop();
    }
  }
  // Few slots are kept for what nobody awaits: the sender is never stuck for long.
  static void Hold(Peer& peer, const Letter& letter) {
    Held held{letter, {}};
    if (letter.stays()) return peer.held.push_back(std::move(held));
    const char* content = peer.in.content(letter);
    if (letter.slot >= 0 && peer.kept < kMostHeld) {
      ++peer.kept;
    } else {
      held.copy.assign(content, content + letter.length);
      if (letter.slot >= 0) peer.in.ReturnSlot(letter.slot);
      held.letter.slot = -1;
    }
    peer.held.push_back(std::move(held));
  }
  // `copy`: the content of a letter that was held without its slot.
  void Deliver(Peer& peer, std::deque<Wanted>::iterator wanted, const Letter& letter,
               std::vector<char>* copy) {
    const char* content = copy && letter.slot < 0 ? copy->data() : Content(peer, letter);
    if (letter.length > kLetterBytes) peer.shows = letter.stays();
    Open& open = OpenOf(wanted->request);
    const bool fits = letter.bytes == wanted->bytes && letter.begin == wanted->got;
    if (!fits) {
      open.error = fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}",
                               peer.rank, rank(), letter.tag, letter.bytes, wanted->bytes);
      if (letter.slot >= 0) peer.in.ReturnSlot(letter.slot);
      if (wanted->borrow) --peer.kept;
      peer.wanted.erase(wanted);
      return;
    }
    if (wanted->borrow && letter.length == letter.bytes) {
      if (copy && letter.slot < 0) open.copy = std::move(*copy);
      open.slot = letter.slot;
      Lend(peer, wanted, content);
      return;
    }
    if (wanted->borrow && wanted->got == 0) {  // it comes in pieces
      open.copy.resize(wanted->bytes);
      wanted->data = open.copy.data();
    }
    if (letter.length > 0) std::memcpy(wanted->data + letter.begin, content, letter.length);
    if (letter.slot >= 0) peer.in.ReturnSlot(letter.slot);
    wanted->got += letter.length;
    if (wanted->got < wanted->bytes) return;
    if (wanted->borrow) return Lend(peer, wanted, wanted->data);
    open.done = true;
    peer.wanted.erase(wanted);
  }
  void Lend(Peer& peer, std::deque<Wanted>::iterator wanted, const char* content) {
    Open& open = OpenOf(wanted->request);
    open.lent = content;
    open.done = true;
    ++peer.loans;
    peer.wanted.erase(wanted);
  }
  const char* Content(Peer& peer, const Letter& letter) {
    return letter.stays() ? ViewOf(peer, letter) + letter.at : peer.in.content(letter);
  }
  // Memory of a peer is mapped when it is first shown, and let go when others have come since:
  // nobody shows what he has freed.
  const char* ViewOf(Peer& peer, const Letter& letter) {
    for (const View& view : peer.views)
      if (view.id == letter.memory_id) return view.memory.data();
    if (peer.views.size() >= kMostViews && peer.loans == 0) peer.views.erase(peer.views.begin());
    try {
      ShmSegment memory = ShmSegment::Open(peer.pid, letter.memory_descriptor, letter.memory_bytes,
                                           ShmSegment::Access::kRead);
      memory.CloseDescriptor();
      peer.views.push_back({letter.memory_id, std::move(memory)});
    } catch (const CommError& error) {
      throw CommError(
          fmt::format("the gradients of rank {} cannot be read: {}", peer.rank, error.what()),
          "raise the number of open files (ulimit -n); or set CARAFE_SHM=off, which is slower");
    }
    return peer.views.back().memory.data();
  }

  const std::unique_ptr<Transport> inner_;
  const std::vector<ShmSegment> segments_;
  std::vector<int> peer_of_;  // by rank: place in peers_, -1 for other hosts
  std::vector<Peer> peers_;
  std::vector<Open> open_;  // request - 1
  std::vector<Request> unused_;
};

// ---- Set-up ----

struct Who {
  char identity[504];
  int64_t pid;
};
struct Offer {
  int32_t descriptor;  // -1: no memory
  uint64_t cookie;
  char problem[240];
};
struct Verdict {
  char problem[256];  // "": all segments are open here
};

// Fills `all` with the segments of the ranks; returns the problem, or "".
std::string OpenSegments(const std::vector<Offer>& offers, ShmSegment mine, Neighbours& all) {
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
      return fmt::format("the memory of rank {} is another one's", all.ranks[i]);
  }
  return "";
}

}  // namespace

std::unique_ptr<Transport> WithSharedMemory(std::unique_ptr<Transport> inner,
                                            const ShmOptions& options) {
  const std::vector<int> everyone = Everyone(*inner);
  Who me = {};
  Put(me.identity, options.identity);
  me.pid = getpid();
  const std::vector<Who> all = Ask(*inner, everyone, me, options.wait);
  Neighbours neighbours;
  for (int r : everyone) {
    const Who& who = all[static_cast<size_t>(r)];
    const bool local = *me.identity && std::strcmp(who.identity, me.identity) == 0;
    if (!local) continue;
    if (r == inner->rank()) neighbours.mine = neighbours.ranks.size();
    neighbours.ranks.push_back(r);
    neighbours.pids.push_back(who.pid);
  }
  if (neighbours.ranks.size() < 2) return inner;
  // Every rank makes memory for what it sends, opens that of the others, and says whether it could.
  Offer offer = {.descriptor = -1, .cookie = 0, .problem = {}};
  ShmSegment mine;
  try {
    mine = options.make(SegmentBytes(neighbours.ranks.size()));
    std::random_device random;
    offer.descriptor = mine.descriptor();
    offer.cookie = uint64_t{random()} << 32 | random();
    reinterpret_cast<SegmentHeader*>(mine.data())->cookie = offer.cookie;
  } catch (const std::exception& error) {
    Put(offer.problem, error.what());
  }
  const std::vector<Offer> offers = Ask(*inner, neighbours.ranks, offer, options.wait);
  Verdict verdict = {};
  Put(verdict.problem, OpenSegments(offers, std::move(mine), neighbours));
  const std::vector<Verdict> verdicts = Ask(*inner, neighbours.ranks, verdict, options.wait);
  neighbours.segments[neighbours.mine].CloseDescriptor();
  for (const Verdict& v : verdicts) {
    if (!*v.problem) continue;
    if (neighbours.mine == 0)
      LogWarning("ranks on {} do not share memory, and are slower for it: {}", inner->host(),
                 v.problem);
    return inner;
  }
  return std::make_unique<ShmTransport>(std::move(inner), std::move(neighbours));
}

}  // namespace carafe
