// The control messages between communication threads: which ranks have started, are alive, have
// failed or have left. A single-threaded object without clock or sleep: Poll gets the time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carafe/comm/timeouts.h"
#include "carafe/comm/transport.h"

namespace carafe {

// Why the group cannot go on.
struct GroupFailure {
  int rank = 0;       // the rank that failed
  bool dead = false;  // it is silent or its connection is lost: it did not report this itself
  std::string text;
};

class Control {
 public:
  using Waits = std::function<std::vector<int>()>;
  // Sends this rank's host name to all others. Both references outlive the object. `waits` returns
  // the ranks that this one waits for; every heartbeat carries them.
  Control(Transport& transport, const CommTimeouts& timeouts, Waits waits = nullptr);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Receives messages, sends heartbeats, counts silence; `now` in seconds. A jump of `now` of more
  // than a second counts as one second, so that a job that was stopped as a whole can continue.
  // Returns whether a message came or a rank was lost.
  bool Poll(double now);

  // The host names of all others have come.
  bool complete() const { return greeted_ == size_; }
  const std::string& host(int rank) const { return peers_[rank].host; }

  // Sends the failure to all others, once. The first failure is kept.
  void Fail(GroupFailure failure);
  const std::optional<GroupFailure>& failure() const { return failure_; }

  // After a failure: this rank's compute thread knows of it.
  void Acknowledge();
  bool Acknowledged(int rank) const { return peers_[rank].acknowledged; }
  // All other ranks that are alive have acknowledged the failure.
  bool AllAcknowledged() const;

  // This rank reports the failure to the user, or has done so: no other rank needs to.
  void AnnounceReport(bool done);
  bool reporting() const { return reporting_; }  // this rank or another one
  bool reported() const { return reported_; }

  // Long work of this rank, during which others should not run into their timeouts; "" ends it.
  void Announce(const std::string& work);
  // This process was asked to end, perhaps because another has died: a rank counts as lost after
  // three missed heartbeats, and heartbeats, which say who waits for whom, come more often.
  void SetUrgent(bool urgent);
  bool AnyBusy() const;

  // This rank is done. Finish() of the transport may follow once AllLeft() and AllSent() hold.
  void Leave();
  bool AllLeft() const;
  // A rank that left longer ago than timeouts.silence, or -1: no message of it can still come.
  int LeftLongAgo() const;
  // The ranks at the end of the chain of waits that starts at `waits_for`: those that were silent
  // for a quarter of timeouts.silence, if any; else those in the chain that wait for no rank.
  // `waits_for` itself if the chain is a circle.
  std::vector<int> EndOfWaits(const std::vector<int>& waits_for) const;
  bool AllSent() const;  // all control messages of this rank have left

 private:
  enum class Kind : uint32_t { kHello, kHeartbeat, kBusy, kFailure, kReporting, kReported, kLeave };
  struct Message {
    Kind kind;
    int32_t culprit;
    uint32_t dead;
    uint32_t length;
    char text[2032];  // with the rest 2 KB, which every MPI sends at once
  };
  struct Outgoing {
    std::unique_ptr<Message> message;
    Transport::Request request;
  };
  struct Peer {
    std::string host;
    std::unique_ptr<Message> incoming;
    Transport::Request receive = 0;
    std::deque<Outgoing> outgoing;
    std::string broken;      // why nothing can be sent any more, or empty
    std::vector<int> waits;  // for these ranks, by its last heartbeat
    double silent = 0;       // seconds
    bool greeted = false;
    bool busy = false;
    bool acknowledged = false;
    bool left = false;
    bool lost = false;
  };

  void Send(int rank, Kind kind, const std::string& text, const GroupFailure* failure = nullptr);
  void SendToAll(Kind kind, const std::string& text, const GroupFailure* failure = nullptr);
  void OnMessage(int rank);
  void OnLost(int rank, const std::string& how);
  void Flush(int rank);
  void SendHeartbeats();
  std::vector<int> Silent() const;

  Transport& transport_;
  const CommTimeouts& timeouts_;
  const Waits waits_;
  const int rank_, size_;    // of the transport, which may be given up before this object ends
  std::vector<Peer> peers_;  // by rank; of this rank's own only the host is used
  std::optional<GroupFailure> failure_;
  std::string work_;
  int greeted_ = 1;
  double last_ = -1;  // `now` of the last Poll, -1 before the first
  double since_heartbeat_ = 0;
  bool left_ = false;
  bool urgent_ = false;
  bool reporting_ = false;
  bool reported_ = false;
};

}  // namespace carafe
