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
  if (!broken_.empty()) return events_.OnDone(request);  // receives from the peer fail
  outgoing_.push_back({request, {.tag = tag, .bytes = bytes}, static_cast<const char*>(data), 0});
}

void TcpStream::Flush() {
  while (!outgoing_.empty()) {
    std::array<iovec, kMaxVectors> vectors;
    size_t count = 0;
    for (auto m = outgoing_.begin(); m != outgoing_.end() && count + 2 <= kMaxVectors; ++m) {
      const size_t of_header = std::min(m->sent, sizeof(Header));
      const size_t of_content = m->sent - of_header;
      if (of_header < sizeof(Header))
        vectors[count++] = {reinterpret_cast<char*>(&m->header) + of_header,
                            sizeof(Header) - of_header};
      if (of_content < m->header.bytes)
        vectors[count++] = {const_cast<char*>(m->data) + of_content, m->header.bytes - of_content};
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
    OnSent(static_cast<size_t>(n));
  }
  blocked_ = false;
}

void TcpStream::OnSent(size_t bytes) {
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

void TcpStream::Receive(const PendingReceive& receive) {
  if (const auto message = mailbox_.TakeMessage(receive.tag))
    return Deliver(receive, message->content);
  mailbox_.AddReceive(receive);
  if (stalled_ && header_.tag == receive.tag) Read();
}

void TcpStream::Read() {
  stalled_ = false;
  bool delivered = false;
  while (broken_.empty() && Distribute(&delivered)) {
    // Now the staging buffer is empty, or holds less than a header.
    std::array<iovec, 2> vectors;
    size_t count = 0;
    const size_t missing = has_place_ ? header_.bytes - received_ : 0;
    const size_t space = kStagingBytes - staging_end_;
    if (has_place_) vectors[count++] = {place_ + received_, missing};
    vectors[count++] = {staging_.data() + staging_end_, space};
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t n = recvmsg(socket_, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return Break(Lost(n == 0 ? 0 : errno));
    const auto bytes = static_cast<size_t>(n);
    bytes_received_ += bytes;
    const size_t of_content = std::min(bytes, missing);
    received_ += of_content;
    staging_end_ += bytes - of_content;
    if (bytes == missing + space) continue;
    Distribute(&delivered);  // there was no more
    return;
  }
}

// Distributes what the staging buffer holds. False: the next message should wait a moment for its
// receive, or the stream is broken.
bool TcpStream::Distribute(bool* delivered) {
  while (in_message_ || BeginMessage()) {
    if (!has_place_ && !ChooseReceive()) {
      if (*delivered) {  // its receive may follow from what was just delivered
        stalled_ = true;
        return false;
      }
      ReceiveAside();
    }
    const size_t part = std::min(staging_end_ - staging_begin_, header_.bytes - received_);
    if (part > 0) std::memcpy(place_ + received_, staging_.data() + staging_begin_, part);
    staging_begin_ += part;
    received_ += part;
    if (received_ < header_.bytes) break;
    CompleteMessage();
    *delivered = true;
  }
  std::memmove(staging_.data(), staging_.data() + staging_begin_, staging_end_ - staging_begin_);
  staging_end_ -= std::exchange(staging_begin_, 0);
  return broken_.empty();
}

bool TcpStream::BeginMessage() {
  if (staging_end_ - staging_begin_ < sizeof(Header)) return false;
  std::memcpy(&header_, staging_.data() + staging_begin_, sizeof(Header));
  staging_begin_ += sizeof(Header);
  if (header_.magic != Header::kMagic || header_.bytes > Transport::kMaxBytes) {
    Break(fmt::format("rank {} sent something that is not a message", peer_));
    return false;
  }
  in_message_ = true;
  received_ = 0;
  return true;
}

// Whether there is a receive for the message that has begun.
bool TcpStream::ChooseReceive() {
  const auto receive = mailbox_.TakeReceive(header_.tag);
  if (!receive) return false;
  if (!receive->Accepts(header_.bytes)) {
    ReceiveAside();  // its content must be read before the next message
    rejected_ = true;
    Fail(*receive, header_.bytes);
    return true;
  }
  receive_ = *receive;
  place_ = receive->data;
  has_place_ = true;
  return true;
}

void TcpStream::ReceiveAside() {
  receive_ = {};
  aside_.resize(header_.bytes);
  place_ = aside_.data();
  has_place_ = true;
}

void TcpStream::CompleteMessage() {
  in_message_ = has_place_ = false;
  if (receive_.request != 0) return events_.OnDone(receive_.request);
  Message message{header_.tag, std::exchange(aside_, {})};
  if (std::exchange(rejected_, false)) return;
  if (const auto receive = mailbox_.TakeReceive(message.tag))  // since the message began
    return Deliver(*receive, message.content);
  mailbox_.AddMessage(std::move(message));
}

void TcpStream::Deliver(const PendingReceive& receive, const std::vector<char>& content) {
  if (!receive.Accepts(content.size())) return Fail(receive, content.size());
  if (!content.empty()) std::memcpy(receive.data, content.data(), content.size());
  events_.OnDone(receive.request);
}

void TcpStream::Fail(const PendingReceive& receive, size_t bytes) {
  events_.OnFailed(receive.request, SizeMismatch(peer_, rank_, receive.tag, bytes, receive.bytes));
}

}  // namespace carafe
