#include "carafe/exchange/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"

namespace carafe {
namespace {

// Headers of the channel itself, in Header::transfer.
constexpr int32_t kClose = -1;
constexpr int32_t kAck = -2;          // acknowledges, and carries nothing else
constexpr int64_t kLast = INT64_MAX;  // the priority of what goes after everything else

int PayloadTag(const ChannelTags& tags, uint32_t sequence) {
  return tags.first_payload + static_cast<int>(sequence % ChannelTags::kPayloads);
}

}  // namespace

Channel::Channel(int rank, int size, const std::vector<int>& peers, const ChannelTags& tags,
                 size_t longest, size_t step_bytes)
    : tags_(tags),
      longest_(longest),
      max_in_flight_(std::max(kWindow * longest, step_bytes / kInFlightDivisor)),
      peers_(peers),
      state_(size),
      listening_(peers.size()) {
  for (int peer : peers_) {
    Ensure(peer != rank && peer >= 0 && peer < size, "a channel to a rank that does not exist");
    state_[peer] = std::make_unique<Peer>();
    state_[peer]->slots.resize(kWindow + 1);
  }
}

void Channel::Send(int to, const Header& header, const void* data, int64_t priority,
                   uint64_t ticket) {
  state_[to]->queue.push({priority, order_++, header, data, ticket});
  ++open_;
  bytes_sent_ += static_cast<int64_t>(header.bytes);
}

void Channel::Close() {
  if (std::exchange(closed_, true)) return;
  for (int peer : peers_) Send(peer, {.transfer = kClose}, nullptr, kLast, 0);
}

bool Channel::Poll(Transport& transport, ChannelEvents& events, double now) {
  now_ = now;
  bool moved = false;
  started_ = true;
  for (int rank : peers_) {
    Peer& peer = *state_[rank];
    bool received = PollHeaders(transport, rank, peer, events);
    received |= PollPayloads(transport, rank, peer, events);
    // What has arrived may cause a message, which then carries the acknowledgement.
    moved |= PollSends(transport, rank, peer, !received, events) || received;
  }
  return moved;
}

// Number of the peer's messages that have arrived whole: all before the first that has not.
uint32_t Channel::Arrived(const Peer& peer) {
  return peer.incoming.empty() ? peer.received : peer.incoming.front().header.sequence;
}

bool Channel::OwesAck(const Peer& peer) const {
  return static_cast<int32_t>(peer.ack_requested - peer.ack_sent) > 0 &&
         Arrived(peer) != peer.ack_sent && !closed_;
}

bool Channel::OwesAck() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [this](int rank) { return OwesAck(*state_[rank]); });
}

void Channel::OnAck(Peer& peer, uint32_t acknowledged) {
  // Sequence numbers wrap around, so their difference is compared.
  while (!peer.unacknowledged.empty() &&
         static_cast<int32_t>(acknowledged - peer.unacknowledged.front().first) > 0) {
    peer.in_flight -= peer.unacknowledged.front().second;
    peer.unacknowledged.pop_front();
  }
}

// A sender that may not send has asked for an acknowledgement already: with the message by which
// more than half of max_in_flight_ became in flight.
bool Channel::MaySend(const Peer& peer, const Outgoing& next) const {
  return peer.closed || peer.in_flight == 0 || peer.in_flight + next.header.bytes <= max_in_flight_;
}

// Whether Limit lets this message leave now, and no other one is more urgent that could leave.
bool Channel::HasTurn(const Outgoing& next) const {
  if (!pace_.limited()) return true;
  if (!pace_.Allows(now_)) return false;
  return std::none_of(peers_.begin(), peers_.end(), [&](int rank) {
    const Peer& peer = *state_[rank];
    return !peer.queue.empty() && next < peer.queue.top() && MaySend(peer, peer.queue.top()) &&
           std::any_of(peer.slots.begin(), peer.slots.begin() + kWindow,
                       [](const SendSlot& slot) { return !slot.busy; });
  });
}

double Channel::NextSend() const {
  if (!pace_.limited() || pace_.Allows(now_)) return -1;
  const bool waits = std::any_of(peers_.begin(), peers_.end(),
                                 [this](int rank) { return !state_[rank]->queue.empty(); });
  return waits ? pace_.free_at() : -1;
}

bool Channel::PollSends(Transport& transport, int rank, Peer& peer, bool may_ack,
                        ChannelEvents& events) {
  bool moved = false;
  for (size_t i = 0; i < peer.slots.size(); ++i) {
    SendSlot& slot = peer.slots[i];
    if (slot.busy) {
      if (slot.header_request != 0 && transport.Done(slot.header_request)) slot.header_request = 0;
      if (slot.payload_request != 0 && transport.Done(slot.payload_request))
        slot.payload_request = 0;
      if (slot.header_request != 0 || slot.payload_request != 0) continue;
      slot.busy = false;
      --open_;
      moved = true;
      if (slot.header.transfer >= 0) events.OnSent(slot.ticket);
    }
    if (i == kWindow) {
      if (!may_ack || !OwesAck(peer)) continue;
      ++open_;
      StartSend(transport, rank, peer, slot, {.header = {.transfer = kAck}});
      moved = true;
    } else if (!peer.queue.empty() && MaySend(peer, peer.queue.top()) &&
               HasTurn(peer.queue.top())) {
      StartSend(transport, rank, peer, slot, peer.queue.top());
      peer.queue.pop();
      moved = true;
    }
  }
  return moved;
}

void Channel::StartSend(Transport& transport, int rank, Peer& peer, SendSlot& slot,
                        const Outgoing& next) {
  const size_t bytes = next.header.bytes;
  Header& header = slot.header;
  header = next.header;
  header.sequence = peer.sent++;
  header.acknowledged = peer.ack_sent = Arrived(peer);
  if (bytes > 0 && transport.link(rank).buffers_sends) {
    peer.in_flight += bytes;
    peer.unacknowledged.emplace_back(header.sequence, bytes);
    header.wants_ack = peer.in_flight > max_in_flight_ / 2 ? 1 : 0;
  }
  pace_.Sent(sizeof(Header) + bytes, now_);
  slot.ticket = next.ticket;
  slot.busy = true;
  if (bytes > 0 && next.data &&
      sizeof(Header) + bytes <= transport.link(rank).short_message_bytes) {
    header.payload_inside = 1;
    slot.frame.resize(sizeof(Header) + bytes);
    std::memcpy(slot.frame.data(), &header, sizeof(Header));
    std::memcpy(slot.frame.data() + sizeof(Header), next.data, bytes);
    slot.header_request = transport.Send(rank, tags_.header, slot.frame.data(), slot.frame.size());
    return;
  }
  slot.header_request = transport.Send(rank, tags_.header, &header, sizeof(Header));
  if (bytes > 0)
    slot.payload_request =
        transport.Send(rank, PayloadTag(tags_, header.sequence), next.data, bytes);
}

Channel::Request Channel::ReceiveHeader(Transport& transport, int rank, Peer& peer) {
  const size_t longest_frame =
      std::max(sizeof(Header),
               std::min(transport.link(rank).short_message_bytes, sizeof(Header) + longest_));
  if (peer.frame.empty() && !spare_frames_.empty()) {
    peer.frame = std::move(spare_frames_.back());
    spare_frames_.pop_back();
  }
  peer.frame.resize(longest_frame);
  peer.frame_bytes = sizeof(Header);
  if (longest_frame == sizeof(Header))
    return transport.Receive(rank, tags_.header, peer.frame.data(), longest_frame);
  return transport.capabilities().short_messages->ReceiveUpTo(rank, tags_.header, peer.frame.data(),
                                                              longest_frame, &peer.frame_bytes);
}

Header Channel::ReadHeader(int rank, Peer& peer) {
  Header header;
  if (peer.frame_bytes >= sizeof(Header)) std::memcpy(&header, peer.frame.data(), sizeof(Header));
  if (peer.frame_bytes != sizeof(Header) + (header.payload_inside ? header.bytes : 0))
    throw CommError(fmt::format("a message of rank {} has {} bytes, which are not what it "
                                "announces",
                                rank, peer.frame_bytes),
                    "all ranks must run the same program");
  if (header.sequence != peer.received++)
    throw CommError(fmt::format("message {} of rank {} came where message {} was due",
                                header.sequence, rank, peer.received - 1),
                    "the network between the ranks loses or repeats messages");
  return header;
}

PayloadView Channel::KeepFrame(Peer& peer) {
  auto free = std::find_if(viewed_frames_.begin(), viewed_frames_.end(),
                           [](const auto& frame) { return frame.empty(); });
  if (free == viewed_frames_.end()) free = viewed_frames_.emplace(viewed_frames_.end());
  *free = std::exchange(peer.frame, {});
  return {.frame = static_cast<int>(free - viewed_frames_.begin())};
}

const void* Channel::Content(const Transport& transport, const PayloadView& view) const {
  if (view.frame < 0) return transport.capabilities().zero_copy->view(view.request);
  return At(viewed_frames_, view.frame).data() + sizeof(Header);
}

void Channel::Release(Transport& transport, const PayloadView& view) {
  if (view.frame < 0) return transport.capabilities().zero_copy->ReleaseView(view.request);
  spare_frames_.push_back(std::exchange(At(viewed_frames_, view.frame), {}));
}

// Takes or requests the payload that this header announces.
Channel::Incoming Channel::StartPayload(Transport& transport, int rank, Peer& peer,
                                        const Header& header, ChannelEvents& events) {
  if (header.bytes > Transport::kMaxBytes)
    throw InternalError("a message announces more bytes than any message has");
  const bool inside = header.payload_inside != 0;
  ZeroCopy* zero_copy = transport.capabilities().zero_copy;
  const PayloadTarget target = events.TargetFor(
      rank, header, inside || (zero_copy && zero_copy->CanView(rank, header.bytes)));
  const int tag = PayloadTag(tags_, header.sequence);
  Incoming incoming{.header = header};
  if (inside && target.zero_copy) {
    incoming.view = KeepFrame(peer);
  } else if (inside) {
    if (target.memory) std::memcpy(target.memory, peer.frame.data() + sizeof(Header), header.bytes);
  } else if (target.zero_copy) {
    incoming.payload = zero_copy->ReceiveView(rank, tag, header.bytes);
    incoming.view = {.request = incoming.payload};
  } else if (header.bytes > 0) {
    incoming.payload = transport.Receive(rank, tag, target.memory, header.bytes);
  }
  return incoming;
}

bool Channel::PollHeaders(Transport& transport, int rank, Peer& peer, ChannelEvents& events) {
  bool moved = false;
  while (!peer.closed) {
    if (peer.header_request == 0) peer.header_request = ReceiveHeader(transport, rank, peer);
    if (!transport.Done(peer.header_request)) break;
    peer.header_request = 0;
    moved = true;
    const Header header = ReadHeader(rank, peer);
    OnAck(peer, header.acknowledged);
    if (header.wants_ack) peer.ack_requested = header.sequence + 1;
    if (header.transfer == kAck) continue;
    if (header.transfer == kClose) {
      peer.closed = true;
      --listening_;
      break;
    }
    ++open_;
    peer.incoming.push_back(StartPayload(transport, rank, peer, header, events));
  }
  return moved;
}

bool Channel::PollPayloads(Transport& transport, int rank, Peer& peer, ChannelEvents& events) {
  bool moved = false;
  while (!peer.incoming.empty()) {
    const Incoming first = peer.incoming.front();
    if (first.payload != 0 && !transport.Done(first.payload)) break;
    peer.incoming.pop_front();
    --open_;
    bytes_received_ += static_cast<int64_t>(first.header.bytes);
    moved = true;
    events.OnArrived(rank, first.header, first.view);
  }
  return moved;
}

}  // namespace carafe
