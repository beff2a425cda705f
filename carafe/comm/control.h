// The talk between communication threads beside the work: who is there, who is alive, who has
// failed, who has left. A single-threaded object without clock or sleep: time is what Poll is told.
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
  int rank = 0;       // whose fault it is
  bool dead = false;  // it cannot speak for itself: silent, or its connection is lost
  std::string text;
};

class Control {
 public:
  using Waits = std::function<std::vector<int>()>;
  // Greets all others with this rank's host name. Both references outlive the object. `waits` says
  // for which ranks this one waits, if it does; every heartbeat tells it.
  Control(Transport& transport, const CommTimeouts& timeouts, Waits waits = nullptr);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Takes messages, sends heartbeats, counts silence; `now` in seconds. A jump of `now` of more
  // than a second counts as one: a job that was stopped as a whole goes on. Says whether anything
  // was heard.
  bool Poll(double now);

  // All others have greeted; host names are known.
  bool complete() const { return greeted_ == transport_.size(); }
  const std::string& host(int rank) const { return peers_[rank].host; }

  // Tells all others, once; the first failure is the one that counts.
  void Fail(GroupFailure failure);
  const std::optional<GroupFailure>& failure() const { return failure_; }

  // After a failure: this rank's compute thread knows it.
  void TakeNote();
  bool Noted(int rank) const { return peers_[rank].noted; }
  // Everyone knows it who can: all but this rank and a dead culprit.
  bool AllNoted() const;

  // This rank tells the user of the failure, or has told: nobody else needs to.
  void Speak(bool done);
  bool speaking() const { return speaking_; }  // this rank or another
  bool spoken() const { return spoken_; }

  // Work of this rank that others should not count as hanging; "" ends it.
  void Announce(const std::string& work);
  // This process was told to end, perhaps because another has died: three missed heartbeats are
  // silence enough, and who waits for whom is asked anew.
  void SetHurry(bool hurry);
  bool AnyoneBusy() const;

  // This rank is done with everything. Finish() of the transport may follow once AllLeft() and
  // Settled() hold.
  void Leave();
  bool AllLeft() const;
  // A rank that left longer ago than timeouts.silence, or -1: nothing of it can be on its way.
  int LongGone() const;
  // For whom a rank that waits for `awaited` waits in the end: for those that were not heard for a
  // quarter of timeouts.silence, if there are any; else for those among `awaited`, or awaited by
  // these, and so on, that wait for nobody. `awaited` itself where all of these wait.
  std::vector<int> AwaitedInTheEnd(const std::vector<int>& awaited) const;
  bool Settled() const;  // nothing that this rank said is still on its way

 private:
  enum class Kind : uint32_t { kHello, kHeartbeat, kBusy, kFailure, kSpeaking, kSpoken, kLeave };
  struct Message {
    Kind kind;
    int32_t culprit;
    uint32_t dead;
    uint32_t length;
    char text[2032];  // with the rest 2 KB: no MPI makes a message of this size wait for its taker
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
    bool noted = false;
    bool left = false;
    bool lost = false;
  };

  void Tell(int rank, Kind kind, const std::string& text, const GroupFailure* failure = nullptr);
  void TellAll(Kind kind, const std::string& text, const GroupFailure* failure = nullptr);
  void Hear(int rank);
  void Lose(int rank, const std::string& how);
  void Flush(int rank);
  void Beat();
  std::vector<int> Silent() const;

  Transport& transport_;
  const CommTimeouts& timeouts_;
  const Waits waits_;
  std::vector<Peer> peers_;  // by rank; this rank's own is left empty but for its host
  std::optional<GroupFailure> failure_;
  std::string work_;
  int greeted_ = 1;
  double last_ = -1;  // `now` of the last Poll, -1 before the first
  double since_heartbeat_ = 0;
  bool left_ = false;
  bool hurry_ = false;
  bool speaking_ = false;
  bool spoken_ = false;
};

}  // namespace carafe
