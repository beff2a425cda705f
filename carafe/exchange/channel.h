// Writes with notification, on two-sided messages: a small header says what comes, and the receiver
// decides where the payload goes; a short payload travels with its header. What is sent first is
// what is needed first. A message that is under way is not interrupted and nothing passes it, so
// there are few at a time: where the transport buffers, the receiver says what has arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

// What a message is about. The channel reads `bytes` and fills what is its own; journeys below 0
// are its own, too.
struct Notice {
  int32_t journey = 0;
  int32_t chunk = 0;
  int32_t label = 0;
  uint32_t sequence = 0;  // of the channel: counts the messages to this peer
  int64_t step = 0;
  uint32_t bytes = 0;
  uint32_t inside = 0;   // of the channel; 1: the payload follows in the same message
  uint32_t arrived = 0;  // of the channel: messages of this peer that have arrived whole
  uint32_t answer = 0;   // of the channel; 1: the sender wants to know when this has arrived
};

// A payload's tag goes round with the message's sequence, so that one that was lost or came twice
// is never taken for another.
struct ChannelTags {
  static constexpr int kPayloads = 4096;
  int header;
  int first_payload;  // kPayloads of them
};

struct PayloadPlace {
  void* memory = nullptr;  // null: of a transport that carries sizes only, or a loan
  bool borrow = false;
};

// Content that stays where it has come: with the transport, or in a letter of the channel.
struct Loan {
  Transport::Request request = 0;
  int letter = -1;
  explicit operator bool() const { return request != 0 || letter >= 0; }
};

// Told by the channel, from inside Poll.
class ChannelEvents {
 public:
  virtual ~ChannelEvents() = default;
  // Where the payload shall go. The place belongs to the channel until OnArrived. `can_borrow`: the
  // content may also stay where it has come.
  virtual PayloadPlace PlaceFor(int from, const Notice& notice, bool can_borrow) = 0;
  // `loan`, if any, is where the content is (Channel::Lent), and is returned by whoever is told.
  virtual void OnArrived(int from, const Notice& notice, const Loan& loan) = 0;
  virtual void OnSent(uint64_t ticket) = 0;  // the memory is free again
};

// Single-threaded, without clock: sends and receives happen in Poll.
class Channel {
 public:
  static constexpr int kWindow = 3;  // messages under way to one peer
  // Where the transport buffers, more may be: as much as one part in so many of a whole step, which
  // is how long what is urgent waits. The line does not run dry then while both sides compute.
  static constexpr size_t kPartUnderWay = 100;

  // `peers` are all that may send or be sent to; no payload has more than `longest` bytes, and all
  // that is sent in a step is about `step_bytes`.
  Channel(int rank, int size, const std::vector<int>& peers, const ChannelTags& tags,
          size_t longest, size_t step_bytes);

  // Lower priority values go first, then the order of the calls.
  void Send(int to, const Notice& notice, const void* data, int priority, uint64_t ticket);
  // Nothing will be sent after this; tells the peers, who must do the same.
  void Close();
  bool Poll(Transport& transport, ChannelEvents& events);
  // No request is open: nobody has polled yet, or all have closed.
  bool Idle() const { return !started_ || (closed_ && open_ == 0 && listening_ == 0); }
  bool OwesAnswer() const;  // to a peer that may be waiting for it
  // Of a loan of OnArrived: the content, until it is returned.
  const void* Lent(const Transport& transport, const Loan& loan) const;
  void Return(Transport& transport, const Loan& loan);
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t bytes_received() const { return bytes_received_; }

 private:
  using Request = Transport::Request;
  struct Outgoing {
    int priority;
    uint64_t order;
    Notice notice;
    const void* data;
    uint64_t ticket;
    bool operator<(const Outgoing& other) const {  // the top of the queue is the largest
      return priority != other.priority ? priority > other.priority : order > other.order;
    }
  };
  struct Flying {
    Notice notice;             // lent to the transport, so it must not move
    std::vector<char> letter;  // as this: the notice and its payload
    Request header = 0;
    Request payload = 0;
    uint64_t ticket = 0;
    bool busy = false;
  };
  struct Incoming {
    Notice notice;
    Request payload = 0;
    Loan loan;
  };
  struct Peer {
    std::priority_queue<Outgoing> queue;
    std::vector<Flying> flying;  // kWindow of them, and one for answers
    std::vector<char> next;      // the header that is awaited, with room for what may follow;
                                 // empty if the last one was lent
    size_t next_bytes = 0;       // of what has come there
    uint32_t sent = 0;           // headers
    uint32_t heard = 0;          // headers
    Request header = 0;
    bool gone = false;     // has closed
    uint32_t asked = 0;    // it wants to know when so many of its messages have arrived
    uint32_t told = 0;     // the number that it was told last
    size_t under_way = 0;  // bytes that are not known to have arrived
    std::deque<std::pair<uint32_t, size_t>> unanswered;  // messages of them: sequence, bytes
    std::deque<Incoming> incoming;  // payloads come in the order of their headers
  };
  bool PollSends(Transport& transport, int rank, Peer& peer, bool answer, ChannelEvents& events);
  void Launch(Transport& transport, int rank, Peer& peer, Flying& flying, const Outgoing& next);
  bool MayLaunch(const Peer& peer, const Outgoing& next) const;
  static uint32_t Arrived(const Peer& peer);
  bool OwesAnswer(const Peer& peer) const;
  static void Answered(Peer& peer, uint32_t arrived);
  Request Listen(Transport& transport, int rank, Peer& peer);
  Notice Heard(int rank, Peer& peer);
  Loan LendLetter(Peer& peer);
  bool PollReceives(Transport& transport, int rank, Peer& peer, ChannelEvents& events);

  const ChannelTags tags_;
  const size_t longest_;
  const size_t most_under_way_;  // bytes to one peer, where sends are buffered
  std::vector<int> peers_;
  std::vector<std::unique_ptr<Peer>> state_;  // by rank; null for those that are not peers
  std::vector<std::vector<char>> lent_;       // letters, by loan; empty if returned
  std::vector<std::vector<char>> spare_;      // letters that were returned
  int64_t open_ = 0;                          // sends and payloads that are not done
  size_t listening_ = 0;                      // peers that have not closed
  bool started_ = false;
  bool closed_ = false;
  uint64_t order_ = 0;
  int64_t bytes_sent_ = 0;
  int64_t bytes_received_ = 0;
};

}  // namespace carafe
