// Moves pieces of memory between ranks by programs (program.h). A single-threaded object without
// clock, sleep, lock or MPI: it is told what is ready, and polled with a transport.
//
// A journey is a piece of memory that makes the same way in every step: a bucket of gradients that
// is summed, or of values that are handed out. It is cut in chunks, each a small state machine; all
// chunks of all journeys share one channel, and the most urgent goes first. Content is moved in
// place; what arrives too early is kept in room from a pool, or in the memory of the transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carafe/exchange/channel.h"
#include "carafe/exchange/program.h"

namespace carafe {

template <typename T>
struct Journey {
  T* data = nullptr;  // null: sizes only (simulation)
  int64_t count = 0;
  int priority = 0;             // lower is more urgent
  std::vector<Program> chunks;  // ranges within [0, count)
  // Parts of this rank's other workers, in their order: at the start of every step they are added
  // to `data` in the tree, and become 0.
  std::vector<T*> others = {};
};

template <typename T>
class Engine final : private ChannelEvents {
 public:
  // Memory is not owned. Equal journeys on all ranks, but for the memory and the ranks' programs.
  Engine(int rank, int size, std::vector<Journey<T>> journeys, const ChannelTags& tags);

  // This rank's content is there (or, where it only receives, the place is free). The memory
  // belongs to the engine until the journey is complete; each once a step, in any order.
  void OnReady(int journey);
  // Timely sums of this journey go on with what is there, if it is under way.
  void OnTimeUp(int journey);
  void Close() { channel_.Close(); }  // no OnReady after this; on all ranks
  // Moves what can be moved; says whether anything did.
  bool Poll(Transport& transport);
  // Journeys that became complete since the last call.
  std::vector<int> TakeComplete();
  bool Idle() const { return channel_.Idle() && active_ == 0; }
  // A journey is under way, or somebody may wait for an answer.
  bool Busy() const { return active_ > 0 || channel_.OwesAnswer(); }
  std::vector<int> Awaited() const;  // ranks whose messages are missing, or that take none

  int64_t bytes_sent() const { return channel_.bytes_sent(); }
  int64_t bytes_received() const { return channel_.bytes_received(); }

 private:
  struct Arrival {
    int from;
    int label;
    int64_t step;
    T* room;           // from the pool, or null
    Loan loan;         // none if it is in `room`, or in its place
    const T* content;  // of either; null if in place (or without memory)
    bool complete;     // the payload is here
  };
  struct Chunk {
    const Program* program = nullptr;
    size_t next = 0;                // the operation that is to be done
    std::vector<size_t> free_from;  // by operation: from when on its range is not touched before it
    std::vector<size_t> sending;    // operations whose memory is still lent
    std::vector<Arrival> arrivals;
    std::vector<int> late;  // ranks that the last timely sum went without
    bool running = false;
  };
  struct Which {
    int journey, chunk;
  };
  struct State {
    std::vector<Chunk> chunks;
    size_t running = 0;  // chunks
    int64_t step = 0;    // of the last OnReady
    bool time_up = false;
  };

  PayloadPlace PlaceFor(int from, const Notice& notice, bool can_borrow) override;
  void OnArrived(int from, const Notice& notice, const Loan& loan) override;
  void OnSent(uint64_t ticket) override;

  void AddOtherWorkers(int journey);
  bool Advance(Which which);
  bool Do(Which which, Chunk& chunk);
  bool SumInTime(Which which, Chunk& chunk);
  Arrival* Find(Chunk& chunk, int from, int label, int64_t step);
  void Forget(Chunk& chunk, const Arrival* arrival);
  bool IsBeingSent(const Chunk& chunk, int64_t begin, int64_t end) const;
  T* TakeRoom();

  const int rank_;
  const int size_;
  std::vector<Journey<T>> journeys_;
  std::vector<State> states_;
  Channel channel_;
  int64_t room_count_ = 0;  // elements of a piece of room: the longest message
  std::vector<std::unique_ptr<T[]>> pool_;
  std::vector<T*> free_rooms_;
  std::vector<Which> woken_;  // chunks that may go on
  std::vector<int> complete_;
  int64_t active_ = 0;              // journeys
  Transport* transport_ = nullptr;  // during Poll
};

}  // namespace carafe
