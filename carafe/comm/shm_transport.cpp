#include "carafe/comm/shm_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
#include "carafe/comm/mailbox.h"
#include "carafe/comm/request_table.h"
#include "carafe/comm/shm_neighbours.h"
#include "carafe/comm/shm_ring.h"
#include "carafe/comm/tags.h"
#include "carafe/comm/transport_decorator.h"
#include "carafe/core/shareable_memory.h"

namespace carafe {
namespace {

// Shorter contents are copied: the sender of a view has to check later whether it was read.
constexpr size_t kMinViewBytes = size_t{32} << 10;
constexpr size_t kMaxMappings = 2;             // of a peer's memory, unless more are in use
constexpr int kMaxKeptSlots = kRingSlots / 2;  // that wait for a receive, or for ReleaseView

TransportCapabilities CapabilitiesOver(const Transport& inner, const ShmNeighbours& neighbours,
                                       ZeroCopy* zero_copy) {
  TransportCapabilities capabilities = inner.capabilities();
  capabilities.backend =
      Count(neighbours.ranks) == inner.size()
          ? "shared memory"
          : fmt::format("shared memory inside this host, {} to others", capabilities.backend);
  capabilities.shares_memory = true;
  capabilities.zero_copy = zero_copy;
  capabilities.waiter = nullptr;  // nothing signals that a ring was written
  return capabilities;
}

class ShmTransport final : public TransportDecorator, private ZeroCopy {
 public:
  ShmTransport(std::unique_ptr<Transport>&& inner, ShmNeighbours neighbours)
      : TransportDecorator(std::move(inner), CapabilitiesOver(*inner, neighbours, this)),
        segments_(std::move(neighbours.segments)),
        peer_of_(static_cast<size_t>(size()), -1),
        peers_(neighbours.ranks.size()) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i == neighbours.mine) continue;
      At(peer_of_, neighbours.ranks[i]) = static_cast<int>(i);
      peers_[i].rank = neighbours.ranks[i];
      peers_[i].out = RingWriter(RingTo(segments_[neighbours.mine], i));
      peers_[i].in = RingReader(RingTo(segments_[i], neighbours.mine));
      peers_[i].pid = neighbours.pids[i];
      if (neighbours.pids[i] != getpid()) peers_[i].process = ProcessWatch(neighbours.pids[i]);
    }
  }

  LinkTraits link(int peer) const override {
    return PeerOf(peer) < 0 ? inner().link(peer) : LinkTraits{};
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    const int p = PeerOf(to);
    if (p < 0) return inner().Send(to, tag, data, bytes);
    Ensure(bytes <= kMaxBytes, "a message that is too long");
    Peer& peer = At(peers_, p);
    Outgoing message{.tag = tag, .data = static_cast<const char*>(data), .bytes = bytes};
    Flush(peer);
    const bool written = !IsQueued(peer, tag) && Write(peer, message);
    if (written && message.view_slot < 0) return 0;
    message.request = requests_.Begin({.peer = p, .tag = tag, .slot = message.view_slot});
    if (!written) peer.outgoing.push_back(message);
    return message.request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    const int p = PeerOf(from);
    if (p < 0) return inner().Receive(from, tag, data, bytes);
    return AddReceive(p, tag, static_cast<char*>(data), bytes, false);
  }
  bool Done(Request request) override {
    if (request == 0) return true;
    if (!requests_.Owns(request)) return inner().Done(request);
    if (!requests_.Done(request)) Advance(request);
    if (!requests_.Done(request)) return false;
    if (!requests_[request].view) requests_.Forget(request);  // ReleaseView forgets a view
    return true;
  }
  bool TakeCompletions() override {
    const bool inner_completions = inner().TakeCompletions();
    return requests_.TakeCompletions() || inner_completions;
  }

 private:
  struct Outgoing {
    Request request = 0;
    int tag = 0;
    const char* data = nullptr;
    size_t bytes = 0;
    size_t sent = 0;
    int view_slot = -1;  // not -1: sent as a view, without a copy
  };
  struct Incoming : PendingReceive {
    size_t progress = 0;  // bytes that have come
    bool view = false;    // ReceiveView
  };
  struct Held {  // a frame that came before its receive
    int tag = 0;
    FrameHeader header;
    std::vector<char> copy;  // of the content, unless that stays in its slot or with the sender
  };
  struct Mapping {  // of a peer's memory
    uint64_t id;
    ShmSegment memory;
  };
  struct Peer {
    int rank = -1;
    int64_t pid = 0;
    RingWriter out;
    RingReader in;
    ProcessWatch process;
    std::deque<Outgoing> outgoing;
    Mailbox<Held, Incoming> mailbox;
    int kept_slots = 0;             // of held frames, and of views that are requested or open
    int open_views = 0;             // that are done and not released
    bool sends_views = false;       // its last long message was a view
    uint32_t view_slots = 0;        // of this rank's views that the peer has or had: bits
    std::vector<Mapping> mappings;  // the newest last
  };
  struct State {
    int peer = 0;
    int tag = 0;
    bool is_receive = false;
    int slot = -1;                // of the view that was sent or received, if it is in one
    const void* view = nullptr;   // not null: a ReceiveView that is done
    std::vector<char> copy = {};  // the content of such a view, if it came in parts
  };

  int PeerOf(int rank) const {
    Ensure(rank >= 0 && rank < size(), "a message to nowhere");
    return At(peer_of_, rank);
  }
  // Moves what this request waits for.
  void Advance(Request request) {
    const State& state = requests_[request];
    Peer& peer = At(peers_, state.peer);
    if (state.is_receive) {
      // Checked before the ring: what the process wrote before its end still counts.
      const bool ended = state.tag == kControlTag && peer.process.ended();
      Drain(peer);
      if (ended && !requests_.Done(request))
        throw CommError(fmt::format("the process of rank {} has ended", peer.rank), "");
    } else if (state.slot < 0) {
      Flush(peer);
    } else if (!peer.out.InUse(state.slot)) {
      peer.view_slots &= ~ViewBit(state.slot);
      requests_.Complete(request);
    }
  }

  // ---- Zero-copy views ----

  bool CanView(int from, size_t bytes) const override {
    const int p = PeerOf(from);
    const ZeroCopy* inner_views = inner().capabilities().zero_copy;
    if (p < 0) return inner_views && inner_views->CanView(from, bytes);
    if (bytes <= kInlineBytes) return false;
    const Peer& peer = At(peers_, p);
    return peer.sends_views || (bytes <= kRingSlotBytes && peer.kept_slots < kMaxKeptSlots);
  }
  Request ReceiveView(int from, int tag, size_t bytes) override {
    const int p = PeerOf(from);
    if (p < 0) return inner().capabilities().zero_copy->ReceiveView(from, tag, bytes);
    return AddReceive(p, tag, nullptr, bytes, true);
  }
  const void* view(Request request) const override {
    if (!requests_.Owns(request)) return inner().capabilities().zero_copy->view(request);
    return requests_[request].view;
  }
  void ReleaseView(Request request) override {
    if (!requests_.Owns(request)) return inner().capabilities().zero_copy->ReleaseView(request);
    State& state = requests_[request];
    Peer& peer = At(peers_, state.peer);
    if (state.slot >= 0) peer.in.ReleaseSlot(state.slot);
    --peer.kept_slots;
    --peer.open_views;
    state.copy = {};
    requests_.Forget(request);
  }

  // ---- Sending ----

  static bool IsQueued(const Peer& peer, int tag) {
    return std::any_of(peer.outgoing.begin(), peer.outgoing.end(),
                       [&](const Outgoing& message) { return message.tag == tag; });
  }
  // Writes as much as fits; returns whether that was the rest of the message.
  static bool Write(Peer& peer, Outgoing& message) {
    if (message.bytes <= kInlineBytes)
      return peer.out.TryWrite({message.tag, -1, message.bytes, 0, message.bytes}, message.data);
    if (message.sent == 0 && WriteView(peer, message)) return true;
    while (message.sent < message.bytes) {
      const int slot = peer.out.FindSlot();
      if (slot < 0) return false;
      const size_t length = std::min(kRingSlotBytes, message.bytes - message.sent);
      if (!peer.out.TryWriteSlot({message.tag, slot, message.bytes, message.sent, length},
                                 message.data + message.sent))
        return false;
      message.sent += length;
    }
    return true;
  }
  // Shareable memory is read where it is: the send is done when the receiver has released it.
  static bool WriteView(Peer& peer, Outgoing& message) {
    if (message.bytes < kMinViewBytes) return false;
    const auto memory = FindShareable(message.data, message.bytes);
    if (!memory) return false;
    // A slot is taken until Done has returned true for its send.
    int slot = kRingSlots;
    while (slot < kRingSlots + kRingViews && (peer.view_slots & ViewBit(slot)) != 0) ++slot;
    if (slot == kRingSlots + kRingViews) return false;
    const bool written =
        peer.out.TryWriteView({.tag = message.tag,
                               .slot = slot,
                               .bytes = message.bytes,
                               .length = message.bytes,
                               .position = static_cast<uint64_t>(message.data - memory->begin),
                               .memory_id = memory->id,
                               .memory_bytes = memory->bytes,
                               .memory_descriptor = memory->descriptor});
    if (!written) return false;
    message.view_slot = slot;
    peer.view_slots |= ViewBit(slot);
    return true;
  }
  static uint32_t ViewBit(int slot) { return uint32_t{1} << (slot - kRingSlots); }
  // Messages of one tag stay in order; a short one overtakes a long one of another tag that waits
  // for a slot, so heartbeats are never blocked.
  void Flush(Peer& peer) {
    if (peer.outgoing.empty()) return;
    std::vector<int> blocked_tags;
    for (auto message = peer.outgoing.begin(); message != peer.outgoing.end();) {
      const bool blocked =
          std::find(blocked_tags.begin(), blocked_tags.end(), message->tag) != blocked_tags.end();
      if (!blocked && Write(peer, *message)) {
        if (message->view_slot < 0) requests_.Complete(message->request);
        requests_[message->request].slot = message->view_slot;
        message = peer.outgoing.erase(message);
        continue;
      }
      if (!blocked) blocked_tags.push_back(message->tag);
      ++message;
    }
  }

  // ---- Receiving ----

  Request AddReceive(int p, int tag, char* data, size_t bytes, bool view) {
    Ensure(bytes <= kMaxBytes, "a receive that is too long");
    Peer& peer = At(peers_, p);
    Incoming receive;
    receive.request = requests_.Begin({.peer = p, .tag = tag, .is_receive = true});
    receive.tag = tag;
    receive.data = data;
    receive.bytes = bytes;
    receive.view = view;
    if (view) ++peer.kept_slots;
    const Request request = receive.request;
    peer.mailbox.AddReceive(receive);
    while (Incoming* open = peer.mailbox.FindReceive(tag)) {
      auto held = peer.mailbox.TakeMessage(tag);
      if (!held) break;
      if (held->header.in_slot()) --peer.kept_slots;
      Deliver(peer, *open, held->header, &held->copy);
    }
    return request;
  }
  void Drain(Peer& peer) {
    while (const FrameHeader* next = peer.in.Peek()) {
      if (Incoming* receive = peer.mailbox.FindReceive(next->tag)) {
        Deliver(peer, *receive, *next, nullptr);
      } else {
        Hold(peer, *next);
      }
      peer.in.Pop();
    }
  }
  // Few slots are kept for frames without a receive, so the sender is never blocked for long.
  static void Hold(Peer& peer, const FrameHeader& header) {
    Held held{.tag = header.tag, .header = header, .copy = {}};
    const bool keep_slot = header.in_slot() && peer.kept_slots < kMaxKeptSlots;
    if (keep_slot) ++peer.kept_slots;
    if (!keep_slot && !header.is_view()) {
      const char* content = peer.in.content(header);
      held.copy.assign(content, content + header.length);
      if (header.in_slot()) peer.in.ReleaseSlot(header.slot);
      held.header.slot = -1;
    }
    peer.mailbox.AddMessage(std::move(held));
  }
  // `copy`: the content of a held frame that has no slot.
  void Deliver(Peer& peer, Incoming& receive, const FrameHeader& header, std::vector<char>* copy) {
    const bool copied = copy && header.slot < 0;
    const char* content = copied ? copy->data() : ContentOf(peer, header);
    if (header.length > kInlineBytes) peer.sends_views = header.is_view();
    State& state = requests_[receive.request];
    if (header.bytes != receive.bytes || header.begin != receive.progress) {
      requests_.Fail(receive.request,
                     SizeMismatch(peer.rank, rank(), header.tag, header.bytes, receive.bytes));
      if (header.slot >= 0) peer.in.ReleaseSlot(header.slot);
      if (receive.view) --peer.kept_slots;
      peer.mailbox.TakeReceive(header.tag);
      return;
    }
    if (receive.view && header.length == header.bytes) {
      if (copied) state.copy = std::move(*copy);
      state.slot = header.slot;
      return CompleteView(peer, receive, content);
    }
    if (receive.view && receive.progress == 0) {  // it comes in parts
      state.copy.resize(receive.bytes);
      receive.data = state.copy.data();
    }
    if (header.length > 0) std::memcpy(receive.data + header.begin, content, header.length);
    if (header.slot >= 0) peer.in.ReleaseSlot(header.slot);
    receive.progress += header.length;
    if (receive.progress < receive.bytes) return;
    if (receive.view) return CompleteView(peer, receive, receive.data);
    requests_.Complete(receive.request);
    peer.mailbox.TakeReceive(header.tag);
  }
  void CompleteView(Peer& peer, const Incoming& receive, const char* content) {
    requests_[receive.request].view = content;
    requests_.Complete(receive.request);
    ++peer.open_views;
    peer.mailbox.TakeReceive(receive.tag);
  }
  const char* ContentOf(Peer& peer, const FrameHeader& header) {
    return header.is_view() ? Map(peer, header) + header.position : peer.in.content(header);
  }
  // A peer's memory is mapped when its first view comes, and unmapped when other memory has come
  // since: a sender never refers to memory that it has freed.
  const char* Map(Peer& peer, const FrameHeader& header) {
    for (const Mapping& mapping : peer.mappings)
      if (mapping.id == header.memory_id) return mapping.memory.data();
    if (peer.mappings.size() >= kMaxMappings && peer.open_views == 0)
      peer.mappings.erase(peer.mappings.begin());
    try {
      ShmSegment memory = ShmSegment::Open(peer.pid, header.memory_descriptor, header.memory_bytes,
                                           ShmSegment::Access::kRead);
      memory.CloseDescriptor();
      peer.mappings.push_back({header.memory_id, std::move(memory)});
    } catch (const CommError& error) {
      throw CommError(
          fmt::format("the gradients of rank {} cannot be read: {}", peer.rank, error.what()),
          "raise the number of open files (ulimit -n); or set CARAFE_SHM=off, which is slower");
    }
    return peer.mappings.back().memory.data();
  }

  const std::vector<ShmSegment> segments_;
  std::vector<int> peer_of_;  // by rank: index in peers_, -1 for ranks of other hosts
  std::vector<Peer> peers_;
  RequestTable<State> requests_{Request{1} << 63};
};

}  // namespace

std::unique_ptr<Transport> WithSharedMemory(std::unique_ptr<Transport> inner,
                                            const ShmOptions& options) {
  ShmNeighbours neighbours = FindNeighbours(*inner, options);
  if (neighbours.ranks.size() < 2) return inner;
  const std::string problem = ShareSegments(*inner, options, neighbours);
  if (problem.empty())
    return std::make_unique<ShmTransport>(std::move(inner), std::move(neighbours));
  if (neighbours.mine == 0)
    LogWarning("ranks on {} do not share memory, and are slower for it: {}", inner->host(),
               problem);
  return inner;
}

}  // namespace carafe
