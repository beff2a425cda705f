#include "carafe/comm/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"

namespace carafe {
namespace {

constexpr double kUrgentFactor = 0.1;  // of the time between two heartbeats

// As a heartbeat carries them. Only the first 508 fit.
std::string Packed(const std::vector<int>& ranks) {
  std::string text(ranks.size() * sizeof(int32_t), '\0');
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int32_t rank = ranks[i];
    std::memcpy(text.data() + i * sizeof rank, &rank, sizeof rank);
  }
  return text;
}

std::vector<int> Unpacked(const std::string& text, int size) {
  std::vector<int> ranks;
  for (size_t at = 0; at + sizeof(int32_t) <= text.size(); at += sizeof(int32_t)) {
    int32_t rank;
    std::memcpy(&rank, text.data() + at, sizeof rank);
    if (rank >= 0 && rank < size) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

Control::Control(Transport& transport, const CommTimeouts& timeouts, Waits waits)
    : transport_(transport),
      timeouts_(timeouts),
      waits_(std::move(waits)),
      rank_(transport.rank()),
      size_(transport.size()),
      peers_(transport.size()) {
  peers_[transport.rank()].host = transport.host();
  for (int r = 0; r < transport.size(); ++r) {
    if (r == transport.rank()) continue;
    Peer& peer = peers_[r];
    peer.incoming = std::make_unique<Message>();
    peer.receive = transport.Receive(r, kControlTag, peer.incoming.get(), sizeof(Message));
  }
  SendToAll(Kind::kHello, transport.host());
}

void Control::Send(int rank, Kind kind, const std::string& text, const GroupFailure* failure) {
  Peer& peer = peers_[rank];
  if (peer.lost || left_) return;  // a peer that has left still receives, until this rank leaves
  Outgoing out{std::make_unique<Message>(), 0};
  Message& m = *out.message;
  std::memset(&m, 0, sizeof m);
  m.kind = kind;
  m.culprit = failure ? failure->rank : rank_;
  m.dead = failure && failure->dead;
  m.length = static_cast<uint32_t>(std::min(text.size(), sizeof m.text));
  std::memcpy(m.text, text.data(), m.length);
  try {
    out.request = transport_.Send(rank, kControlTag, out.message.get(), sizeof m);
    peer.outgoing.push_back(std::move(out));
  } catch (const CommError& error) {
    peer.broken = error.fields().what;  // for the next Poll; the other peers still get the message
  }
}

void Control::SendToAll(Kind kind, const std::string& text, const GroupFailure* failure) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) Send(r, kind, text, failure);
}

bool Control::Poll(double now) {
  const double step = last_ < 0 ? 0 : std::clamp(now - last_, 0.0, 1.0);
  last_ = now;
  bool received = false;
  int lost = -1;
  std::string how;
  const double silence =
      urgent_ ? std::min(timeouts_.silence, 3 * timeouts_.heartbeat) : timeouts_.silence;
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[r];
    if (r == rank_ || peer.lost) continue;
    peer.silent += step;
    try {
      Flush(r);
      while (peer.receive != 0 && transport_.Done(peer.receive)) {
        OnMessage(r);
        received = true;
      }
    } catch (const CommError& error) {
      lost = r;
      how = error.fields().what;
    }
    if (!peer.broken.empty()) {
      lost = r;
      how = peer.broken;
    }
    if (!peer.left && peer.greeted && peer.silent > silence) {
      lost = r;
      how = fmt::format("no sign of life for {:.1f} s", peer.silent);
    }
  }
  if (lost >= 0) {  // after the messages of all others: one of them may know more
    OnLost(lost, how);
    received = true;
  }
  since_heartbeat_ += step;
  if (since_heartbeat_ >= timeouts_.heartbeat * (urgent_ ? kUrgentFactor : 1) && !left_)
    SendHeartbeats();
  return received;
}

void Control::SendHeartbeats() {
  since_heartbeat_ = 0;
  const std::string waits = waits_ ? Packed(waits_()) : "";
  for (int r = 0; r < size_; ++r)  // a peer that receives nothing gets no more
    if (r != rank_ && peers_[r].outgoing.empty()) Send(r, Kind::kHeartbeat, waits);
}

void Control::SetUrgent(bool urgent) {
  if (urgent && !urgent_)
    for (Peer& peer : peers_) peer.waits.clear();
  urgent_ = urgent;
}

void Control::Flush(int rank) {
  std::deque<Outgoing>& outgoing = peers_[rank].outgoing;
  while (!outgoing.empty() && transport_.Done(outgoing.front().request)) outgoing.pop_front();
}

void Control::OnMessage(int rank) {
  Peer& peer = peers_[rank];
  const Message& m = *peer.incoming;
  const std::string text(m.text, std::min<size_t>(m.length, sizeof m.text));
  peer.silent = 0;
  peer.receive = 0;
  switch (m.kind) {
    case Kind::kHello:
      peer.host = text;
      peer.greeted = true;
      ++greeted_;
      break;
    case Kind::kHeartbeat:
      peer.waits = Unpacked(text, size_);
      break;
    case Kind::kBusy:
      peer.busy = !text.empty();
      break;
    case Kind::kFailure:
      peer.acknowledged = true;  // its sender knows the failure
      if (!failure_) failure_ = GroupFailure{m.culprit, m.dead != 0, text};
      break;
    case Kind::kReporting:
      reporting_ = true;
      break;
    case Kind::kReported:
      reporting_ = reported_ = true;
      break;
    case Kind::kLeave:
      peer.left = true;
      return;  // nothing more will come
  }
  peer.receive = transport_.Receive(rank, kControlTag, peer.incoming.get(), sizeof(Message));
}

void Control::OnLost(int rank, const std::string& how) {
  if (!left_) Fail({rank, true, how});  // sent to the lost one too: it may still receive
  peers_[rank].lost = true;
  peers_[rank].receive = 0;
}

void Control::Fail(GroupFailure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  SendToAll(Kind::kFailure, failure_->text, &*failure_);
}

// Sends the failure again: a rank that sees this one end must know why, even if the message of the
// failed rank itself comes late.
void Control::Acknowledge() { SendToAll(Kind::kFailure, failure_->text, &*failure_); }

bool Control::AllAcknowledged() const {
  for (int r = 0; r < size_; ++r) {
    const Peer& peer = peers_[r];
    if (r != rank_ && !peer.acknowledged && !peer.left && !peer.lost) return false;
  }
  return true;
}

void Control::AnnounceReport(bool done) {
  reporting_ = true;
  reported_ = done;
  SendToAll(done ? Kind::kReported : Kind::kReporting, "");
}

void Control::Announce(const std::string& work) {
  if (work == work_) return;
  work_ = work;
  SendToAll(Kind::kBusy, work);
}

bool Control::AnyBusy() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.busy; });
}

void Control::Leave() {
  SendToAll(Kind::kLeave, "");
  left_ = true;
}

bool Control::AllLeft() const {
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !peers_[r].left && !peers_[r].lost) return false;
  return true;
}

std::vector<int> Control::Silent() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !peers_[r].left && peers_[r].silent > timeouts_.silence / 4)
      ranks.push_back(r);
  return ranks;
}

std::vector<int> Control::EndOfWaits(const std::vector<int>& waits_for) const {
  std::vector<int> ends = Silent();
  if (!ends.empty()) return ends;
  std::vector<bool> seen(peers_.size(), false);
  seen[rank_] = true;
  std::vector<int> open = waits_for;
  while (!open.empty()) {
    const int r = open.back();
    open.pop_back();
    if (seen[r]) continue;
    seen[r] = true;
    const std::vector<int>& next = peers_[r].waits;
    if (next.empty()) ends.push_back(r);
    open.insert(open.end(), next.begin(), next.end());
  }
  std::sort(ends.begin(), ends.end());
  return ends.empty() ? waits_for : ends;
}

int Control::LeftLongAgo() const {
  for (int r = 0; r < size_; ++r)
    if (peers_[r].left && peers_[r].silent > timeouts_.silence) return r;
  return -1;
}

bool Control::AllSent() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& p) { return p.lost || p.outgoing.empty(); });
}

}  // namespace carafe
