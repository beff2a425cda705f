#include "carafe/comm/tcp_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "carafe/comm/transport.h"

namespace carafe {

// ---- Sending ----

void TcpStream::Send(uint64_t request, int tag, const void* data, size_t bytes) {
  if (!broken_.empty()) return events_.OnDone(request);  // whoever listens to the peer is told
  outgoing_.push_back({request, {.tag = tag, .bytes = bytes}, static_cast<const char*>(data), 0});
}

void TcpStream::Flush() {
  while (!outgoing_.empty()) {
    std::array<iovec, kMostVectors> vectors;
    size_t count = 0;
    for (auto m = outgoing_.begin(); m != outgoing_.end() && count + 2 <= kMostVectors; ++m) {
      const size_t of_frame = std::min(m->sent, sizeof(Frame));
      const size_t of_content = m->sent - of_frame;
      if (of_frame < sizeof(Frame))
        vectors[count++] = {reinterpret_cast<char*>(&m->frame) + of_frame,
                            sizeof(Frame) - of_frame};
      if (of_content < m->frame.bytes)
        vectors[count++] = {const_cast<char*>(m->data) + of_content, m->frame.bytes - of_content};
    }
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
      blocked_ = true;
      return;
    }
    if (n < 0) return Break(Lost(errno));
    Sent(static_cast<size_t>(n));
  }
  blocked_ = false;
}

void TcpStream::Sent(size_t bytes) {
  bytes_sent_ += bytes;
  while (bytes > 0) {
    Outgoing& first = outgoing_.front();
    const size_t part = std::min(bytes, first.size() - first.sent);
    first.sent += part;
    bytes -= part;
    if (first.sent < first.size()) return;
    const uint64_t request = first.request;
    outgoing_.pop_front();
    events_.OnDone(request);
  }
}

void TcpStream::Break(const std::string& why) {
  broken_ = why;
  stalled_ = blocked_ = false;
  for (const Outgoing& message : std::exchange(outgoing_, {})) events_.OnDone(message.request);
}

std::string TcpStream::Lost(int error) const {
  return fmt::format("the connection to rank {} is broken: {}", peer_,
                     error == 0 ? "closed by the other side" : std::strerror(error));
}

// ---- Receiving ----

void TcpStream::Receive(uint64_t request, int tag, void* data, size_t bytes) {
  const Wanted wanted{request, tag, static_cast<char*>(data), bytes};
  const auto held =
      std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.tag == tag; });
  if (held != held_.end()) {
    const std::vector<char> content = std::move(held->content);
    held_.erase(held);
    return Deliver(wanted, content);
  }
  wanted_.push_back(wanted);
  if (stalled_ && frame_.tag == tag) Read();
}

void TcpStream::Read() {
  stalled_ = false;
  bool delivered = false;
  while (broken_.empty() && Sort(&delivered)) {
    // Now the stage is empty, or holds less than a frame.
    std::array<iovec, 2> vectors;
    size_t count = 0;
    const size_t awaited = placed_ ? frame_.bytes - got_ : 0;
    const size_t room = kStage - stage_end_;
    if (placed_) vectors[count++] = {place_ + got_, awaited};
    vectors[count++] = {stage_.data() + stage_end_, room};
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t n = recvmsg(socket_, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Break(Lost(n == 0 ? 0 : errno));
    const auto bytes = static_cast<size_t>(n);
    bytes_received_ += bytes;
    const size_t of_content = std::min(bytes, awaited);
    got_ += of_content;
    stage_end_ += bytes - of_content;
    if (bytes == awaited + room) continue;
    Sort(&delivered);  // there was no more
    return;
  }
}

// Hands out what the stage holds. False: the next message should wait a moment, or the stream has
// lost its way.
bool TcpStream::Sort(bool* delivered) {
  while (in_frame_ || BeginFrame()) {
    if (!placed_ && !Place()) {
      if (*delivered) {  // whoever was just given something may want this one next
        stalled_ = true;
        return false;
      }
      PlaceAside();
    }
    const size_t part = std::min(stage_end_ - stage_begin_, frame_.bytes - got_);
    if (part > 0) std::memcpy(place_ + got_, stage_.data() + stage_begin_, part);
    stage_begin_ += part;
    got_ += part;
    if (got_ < frame_.bytes) break;
    Complete();
    *delivered = true;
  }
  std::memmove(stage_.data(), stage_.data() + stage_begin_, stage_end_ - stage_begin_);
  stage_end_ -= std::exchange(stage_begin_, 0);
  return broken_.empty();
}

bool TcpStream::BeginFrame() {
  if (stage_end_ - stage_begin_ < sizeof(Frame)) return false;
  std::memcpy(&frame_, stage_.data() + stage_begin_, sizeof(Frame));
  stage_begin_ += sizeof(Frame);
  if (frame_.check != Frame::kCheck || frame_.bytes > Transport::kMaxBytes) {
    Break(fmt::format("rank {} sends what is no message", peer_));
    return false;
  }
  in_frame_ = true;
  got_ = 0;
  return true;
}

// Whether somebody wants the message that has begun.
bool TcpStream::Place() {
  const auto wanted = FindWanted(frame_.tag);
  if (wanted == wanted_.end()) return false;
  const Wanted taker = *wanted;
  wanted_.erase(wanted);
  if (taker.bytes != frame_.bytes) {
    PlaceAside();  // others follow, so it has to be read
    refused_ = true;
    Refuse(taker, frame_.bytes);
    return true;
  }
  taker_ = taker;
  place_ = taker.data;
  placed_ = true;
  return true;
}

void TcpStream::PlaceAside() {
  taker_ = {};
  aside_.resize(frame_.bytes);
  place_ = aside_.data();
  placed_ = true;
}

void TcpStream::Complete() {
  in_frame_ = placed_ = false;
  if (taker_.request != 0) return events_.OnDone(taker_.request);
  std::vector<char> content = std::exchange(aside_, {});
  if (std::exchange(refused_, false)) return;
  const auto wanted = FindWanted(frame_.tag);  // since it began
  if (wanted == wanted_.end()) {
    held_.push_back({frame_.tag, std::move(content)});
    return;
  }
  const Wanted taker = *wanted;
  wanted_.erase(wanted);
  Deliver(taker, content);
}

std::deque<TcpStream::Wanted>::iterator TcpStream::FindWanted(int tag) {
  return std::find_if(wanted_.begin(), wanted_.end(),
                      [&](const Wanted& wanted) { return wanted.tag == tag; });
}

void TcpStream::Deliver(const Wanted& wanted, const std::vector<char>& content) {
  if (content.size() != wanted.bytes) return Refuse(wanted, content.size());
  if (!content.empty()) std::memcpy(wanted.data, content.data(), content.size());
  events_.OnDone(wanted.request);
}

void TcpStream::Refuse(const Wanted& wanted, size_t bytes) {
  events_.OnRefused(wanted.request,
                    fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}",
                                peer_, rank_, wanted.tag, bytes, wanted.bytes));
}

}  // namespace carafe
