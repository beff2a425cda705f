#include "carafe/exchange/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"

namespace carafe {
namespace {

constexpr int32_t kGoodbye = -1;
constexpr int32_t kAnswer = -2;  // says what has arrived, and nothing else
constexpr int kLast = 1 << 30;   // the priority of what follows everything else

int PayloadTag(const ChannelTags& tags, uint32_t sequence) {
  return tags.first_payload + static_cast<int>(sequence % ChannelTags::kPayloads);
}

}  // namespace

Channel::Channel(int rank, int size, const std::vector<int>& peers, const ChannelTags& tags,
                 size_t longest, size_t step_bytes)
    : tags_(tags),
      longest_(longest),
      most_under_way_(std::max(kWindow * longest, step_bytes / kPartUnderWay)),
      peers_(peers),
      state_(size),
      listening_(peers.size()) {
  for (int peer : peers_) {
    Ensure(peer != rank && peer >= 0 && peer < size, "a channel to nowhere");
    state_[peer] = std::make_unique<Peer>();
    state_[peer]->flying.resize(kWindow + 1);
  }
}

void Channel::Send(int to, const Notice& notice, const void* data, int priority, uint64_t ticket) {
  state_[to]->queue.push({priority, order_++, notice, data, ticket});
  ++open_;
  bytes_sent_ += static_cast<int64_t>(notice.bytes);
}

void Channel::Close() {
  if (std::exchange(closed_, true)) return;
  for (int peer : peers_) Send(peer, {.journey = kGoodbye}, nullptr, kLast, 0);
}

bool Channel::Poll(Transport& transport, ChannelEvents& events) {
  bool moved = false;
  started_ = true;
  for (int rank : peers_) {
    Peer& peer = *state_[rank];
    const bool received = PollReceives(transport, rank, peer, events);
    // What has come may cause a message, which then says that it has arrived.
    moved |= PollSends(transport, rank, peer, !received, events) || received;
  }
  return moved;
}

// The messages of this peer that have arrived whole: all before the first that has not.
uint32_t Channel::Arrived(const Peer& peer) {
  return peer.incoming.empty() ? peer.heard : peer.incoming.front().notice.sequence;
}

bool Channel::OwesAnswer(const Peer& peer) const {
  return static_cast<int32_t>(peer.asked - peer.told) > 0 && Arrived(peer) != peer.told && !closed_;
}

bool Channel::OwesAnswer() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [this](int rank) { return OwesAnswer(*state_[rank]); });
}

void Channel::Answered(Peer& peer, uint32_t arrived) {
  // Sequences go round: what counts is the difference.
  while (!peer.unanswered.empty() &&
         static_cast<int32_t>(arrived - peer.unanswered.front().first) > 0) {
    peer.under_way -= peer.unanswered.front().second;
    peer.unanswered.pop_front();
  }
}

// Whoever may not has asked with its last message: more than half of what may be is under way.
bool Channel::MayLaunch(const Peer& peer, const Outgoing& next) const {
  return peer.gone || peer.under_way == 0 || peer.under_way + next.notice.bytes <= most_under_way_;
}

bool Channel::PollSends(Transport& transport, int rank, Peer& peer, bool answer,
                        ChannelEvents& events) {
  bool moved = false;
  for (size_t i = 0; i < peer.flying.size(); ++i) {
    Flying& flying = peer.flying[i];
    if (flying.busy) {
      if (flying.header != 0 && transport.Done(flying.header)) flying.header = 0;
      if (flying.payload != 0 && transport.Done(flying.payload)) flying.payload = 0;
      if (flying.header != 0 || flying.payload != 0) continue;
      flying.busy = false;
      --open_;
      moved = true;
      if (flying.notice.journey >= 0) events.OnSent(flying.ticket);
    }
    if (i == kWindow) {
      if (!answer || !OwesAnswer(peer)) continue;
      ++open_;
      Launch(transport, rank, peer, flying, {.notice = {.journey = kAnswer}});
      moved = true;
    } else if (!peer.queue.empty() && MayLaunch(peer, peer.queue.top())) {
      Launch(transport, rank, peer, flying, peer.queue.top());
      peer.queue.pop();
      moved = true;
    }
  }
  return moved;
}

void Channel::Launch(Transport& transport, int rank, Peer& peer, Flying& flying,
                     const Outgoing& next) {
  const size_t bytes = next.notice.bytes;
  Notice& notice = flying.notice;
  notice = next.notice;
  notice.sequence = peer.sent++;
  notice.arrived = peer.told = Arrived(peer);
  if (bytes > 0 && transport.BuffersSends(rank)) {
    peer.under_way += bytes;
    peer.unanswered.emplace_back(notice.sequence, bytes);
    notice.answer = peer.under_way > most_under_way_ / 2 ? 1 : 0;
  }
  flying.ticket = next.ticket;
  flying.busy = true;
  if (bytes > 0 && next.data && sizeof(Notice) + bytes <= transport.ShortMessage(rank)) {
    notice.inside = 1;
    flying.letter.resize(sizeof(Notice) + bytes);
    std::memcpy(flying.letter.data(), &notice, sizeof(Notice));
    std::memcpy(flying.letter.data() + sizeof(Notice), next.data, bytes);
    flying.header = transport.Send(rank, tags_.header, flying.letter.data(), flying.letter.size());
    return;
  }
  flying.header = transport.Send(rank, tags_.header, &notice, sizeof(Notice));
  if (bytes > 0)
    flying.payload = transport.Send(rank, PayloadTag(tags_, notice.sequence), next.data, bytes);
}

Channel::Request Channel::Listen(Transport& transport, int rank, Peer& peer) {
  const size_t room =
      std::max(sizeof(Notice), std::min(transport.ShortMessage(rank), sizeof(Notice) + longest_));
  if (peer.next.empty() && !spare_.empty()) {
    peer.next = std::move(spare_.back());
    spare_.pop_back();
  }
  peer.next.resize(room);
  peer.next_bytes = sizeof(Notice);
  if (room == sizeof(Notice)) return transport.Receive(rank, tags_.header, peer.next.data(), room);
  return transport.ReceiveShort(rank, tags_.header, peer.next.data(), room, &peer.next_bytes);
}

Notice Channel::Heard(int rank, Peer& peer) {
  Notice notice;
  if (peer.next_bytes >= sizeof(Notice)) std::memcpy(&notice, peer.next.data(), sizeof(Notice));
  if (peer.next_bytes != sizeof(Notice) + (notice.inside ? notice.bytes : 0))
    throw CommError(
        fmt::format("a message of rank {} has {} bytes, which are not what it announces", rank,
                    peer.next_bytes),
        "all ranks must run the same program");
  if (notice.sequence != peer.heard++)
    throw CommError(fmt::format("message {} of rank {} came where message {} was due",
                                notice.sequence, rank, peer.heard - 1),
                    "the network between the ranks loses or repeats messages");
  return notice;
}

Loan Channel::LendLetter(Peer& peer) {
  auto free = std::find_if(lent_.begin(), lent_.end(), [](const auto& l) { return l.empty(); });
  if (free == lent_.end()) free = lent_.emplace(lent_.end());
  *free = std::exchange(peer.next, {});
  return {.letter = static_cast<int>(free - lent_.begin())};
}

const void* Channel::Lent(const Transport& transport, const Loan& loan) const {
  if (loan.letter < 0) return transport.Lent(loan.request);
  return lent_[static_cast<size_t>(loan.letter)].data() + sizeof(Notice);
}

void Channel::Return(Transport& transport, const Loan& loan) {
  if (loan.letter < 0) return transport.Return(loan.request);
  spare_.push_back(std::exchange(lent_[static_cast<size_t>(loan.letter)], {}));
}

bool Channel::PollReceives(Transport& transport, int rank, Peer& peer, ChannelEvents& events) {
  bool moved = false;
  while (!peer.gone) {
    if (peer.header == 0) peer.header = Listen(transport, rank, peer);
    if (!transport.Done(peer.header)) break;
    peer.header = 0;
    moved = true;
    const Notice notice = Heard(rank, peer);
    Answered(peer, notice.arrived);
    if (notice.answer) peer.asked = notice.sequence + 1;
    if (notice.journey == kAnswer) continue;
    if (notice.journey == kGoodbye) {
      peer.gone = true;
      --listening_;
      break;
    }
    ++open_;
    if (notice.bytes > Transport::kMaxBytes)
      throw InternalError("a message announces more bytes than any message has");
    const bool inside = notice.inside != 0;
    const PayloadPlace place =
        events.PlaceFor(rank, notice, inside || transport.CanLend(rank, notice.bytes));
    const int tag = PayloadTag(tags_, notice.sequence);
    Incoming incoming{.notice = notice};
    if (inside && place.borrow) {
      incoming.loan = LendLetter(peer);
    } else if (inside) {
      if (place.memory) std::memcpy(place.memory, peer.next.data() + sizeof(Notice), notice.bytes);
    } else if (place.borrow) {
      incoming.payload = transport.Borrow(rank, tag, notice.bytes);
      incoming.loan = {.request = incoming.payload};
    } else if (notice.bytes > 0) {
      incoming.payload = transport.Receive(rank, tag, place.memory, notice.bytes);
    }
    peer.incoming.push_back(incoming);
  }
  while (!peer.incoming.empty()) {
    const Incoming& first = peer.incoming.front();
    if (first.payload != 0 && !transport.Done(first.payload)) break;
    const Notice notice = first.notice;
    const Loan loan = first.loan;
    peer.incoming.pop_front();
    --open_;
    bytes_received_ += static_cast<int64_t>(notice.bytes);
    moved = true;
    events.OnArrived(rank, notice, loan);
  }
  return moved;
}

}  // namespace carafe
