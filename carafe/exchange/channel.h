// Sends payloads between ranks, most urgent first. Every payload is announced by a small header, by
// which the receiver decides where the payload goes; a short payload travels in one frame with its
// header. A message in flight is neither interrupted nor overtaken, so only few are in flight at a
// time: where the transport buffers sends, the receiver acknowledges what has arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"
#include "carafe/exchange/send_pace.h"

namespace carafe {

// Precedes every payload. The first fields are the engine's; those after `bytes` and `sequence` are
// filled by the channel, which also sends headers of its own, with transfer < 0.
struct Header {
  int32_t transfer = 0;
  int32_t chunk = 0;
  int32_t label = 0;
  uint32_t sequence = 0;  // set by the channel: counts the headers sent to this peer
  int64_t step = 0;
  uint32_t bytes = 0;           // of the payload
  uint32_t payload_inside = 0;  // 1: the payload follows in the same frame
  uint32_t acknowledged = 0;    // number of the receiver's messages that have arrived whole
  uint32_t wants_ack = 0;       // 1: the sender asks for an acknowledgement of this message
};

// The tag of a payload cycles with the header's sequence number, so that a lost or repeated payload
// is never taken for another one.
struct ChannelTags {
  static constexpr int kPayloads = 4096;
  int header;
  int first_payload;  // kPayloads tags from here on
};

// Where a payload goes.
struct PayloadTarget {
  void* memory = nullptr;  // null if zero_copy, or if the transport carries sizes only
  bool zero_copy = false;  // the payload stays where it arrived: OnArrived gets a view of it
};

// A zero-copy view of a payload: it lies in the transport's memory, or in a frame of the channel.
struct PayloadView {
  Transport::Request request = 0;
  int frame = -1;
  explicit operator bool() const { return request != 0 || frame >= 0; }
};

// Called by the channel, from inside Poll.
class ChannelEvents {
 public:
  virtual ~ChannelEvents() = default;
  // Decides where the payload goes; the target belongs to the channel until OnArrived. zero_copy
  // may be chosen only if `can_view`.
  virtual PayloadTarget TargetFor(int from, const Header& header, bool can_view) = 0;
  // `view` is set if zero_copy was chosen; the callee releases it (Channel::Release).
  virtual void OnArrived(int from, const Header& header, const PayloadView& view) = 0;
  virtual void OnSent(uint64_t ticket) = 0;  // the sender's memory is free again
};

// Single-threaded and without a clock: sends and receives happen in Poll.
class Channel {
 public:
  static constexpr int kWindow = 3;  // messages in flight to one peer
  // Where the transport buffers sends, more bytes may be in flight: a step's bytes divided by this.
  // That keeps the line busy while both sides compute, and is as long as an urgent message waits.
  static constexpr size_t kInFlightDivisor = 100;

  // `peers` are all ranks that send or are sent to; no payload is longer than `longest` bytes, and
  // a step sends about `step_bytes` in all.
  Channel(int rank, int size, const std::vector<int>& peers, const ChannelTags& tags,
          size_t longest, size_t step_bytes);

  // Lower priority values go first, then the order of the calls.
  void Send(int to, const Header& header, const void* data, int64_t priority, uint64_t ticket);
  // Messages of all peers together leave at this pace, the most urgent first.
  void Limit(const SendPace& pace) { pace_ = pace; }
  // Nothing is sent after this; every peer must close as well.
  void Close();
  // `now`: seconds, for Limit only.
  bool Poll(Transport& transport, ChannelEvents& events, double now = 0);
  // When a message may leave that Limit holds back; < 0: there is none.
  double NextSend() const;
  // No request is open: Poll was never called, or this rank and all peers have closed.
  bool Idle() const { return !started_ || (closed_ && open_ == 0 && listening_ == 0); }
  bool OwesAck() const;  // a peer may be waiting for an acknowledgement
  // The content of a view, until it is released.
  const void* Content(const Transport& transport, const PayloadView& view) const;
  void Release(Transport& transport, const PayloadView& view);
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t bytes_received() const { return bytes_received_; }

 private:
  using Request = Transport::Request;
  struct Outgoing {
    int64_t priority;
    uint64_t order;
    Header header;
    const void* data;
    uint64_t ticket;
    bool operator<(const Outgoing& other) const {  // the top of the queue is the largest
      return priority != other.priority ? priority > other.priority : order > other.order;
    }
  };
  // One message in flight. The transport reads `header` or `frame`, so neither may move.
  struct SendSlot {
    Header header;
    std::vector<char> frame;  // header and payload, if they travel together
    Request header_request = 0;
    Request payload_request = 0;
    uint64_t ticket = 0;
    bool busy = false;
  };
  struct Incoming {
    Header header;
    Request payload = 0;
    PayloadView view;
  };
  struct Peer {
    std::priority_queue<Outgoing> queue;
    std::vector<SendSlot> slots;  // kWindow for payloads, and one for acknowledgements
    std::vector<char> frame;      // receives the next header and what may follow it
    size_t frame_bytes = 0;       // bytes that arrived in `frame`
    Request header_request = 0;   // the receive of the next header
    uint32_t sent = 0;            // headers sent
    uint32_t received = 0;        // headers received
    bool closed = false;          // the peer has closed
    uint32_t ack_requested = 0;   // the peer waits until so many of its messages have arrived
    uint32_t ack_sent = 0;        // the number that it was sent last
    size_t in_flight = 0;         // bytes sent and not acknowledged
    std::deque<std::pair<uint32_t, size_t>> unacknowledged;  // sequence and bytes of each
    std::deque<Incoming> incoming;  // payloads complete in the order of their headers
  };
  bool PollSends(Transport& transport, int rank, Peer& peer, bool may_ack, ChannelEvents& events);
  bool HasTurn(const Outgoing& next) const;
  void StartSend(Transport& transport, int rank, Peer& peer, SendSlot& slot, const Outgoing& next);
  bool MaySend(const Peer& peer, const Outgoing& next) const;
  static uint32_t Arrived(const Peer& peer);
  bool OwesAck(const Peer& peer) const;
  static void OnAck(Peer& peer, uint32_t acknowledged);
  Request ReceiveHeader(Transport& transport, int rank, Peer& peer);
  static Header ReadHeader(int rank, Peer& peer);
  PayloadView KeepFrame(Peer& peer);
  Incoming StartPayload(Transport& transport, int rank, Peer& peer, const Header& header,
                        ChannelEvents& events);
  bool PollHeaders(Transport& transport, int rank, Peer& peer, ChannelEvents& events);
  bool PollPayloads(Transport& transport, int rank, Peer& peer, ChannelEvents& events);

  const ChannelTags tags_;
  const size_t longest_;
  const size_t max_in_flight_;  // bytes to one peer, where the transport buffers sends
  std::vector<int> peers_;
  std::vector<std::unique_ptr<Peer>> state_;      // by rank; null for ranks that are no peers
  std::vector<std::vector<char>> viewed_frames_;  // by PayloadView::frame; empty if released
  std::vector<std::vector<char>> spare_frames_;   // released, to be used again
  int64_t open_ = 0;                              // sends and payloads that are not complete
  size_t listening_ = 0;                          // peers that have not closed
  bool started_ = false;
  bool closed_ = false;
  uint64_t order_ = 0;
  SendPace pace_;
  double now_ = 0;  // of the last Poll
  int64_t bytes_sent_ = 0;
  int64_t bytes_received_ = 0;
};

}  // namespace carafe
