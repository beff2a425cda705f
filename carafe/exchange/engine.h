// Sums buckets over all ranks. A single-threaded object without clock, sleep, lock or MPI: it is
// told what is ready, and polled with a transport.
//
// A bucket is cut in one segment per rank, its owner. Every rank sends segment o to owner o; the
// owner adds the parts in the fixed tree (core/tree_sum.h) and sends the sum to all. That moves
// 2 n (P-1)/P bytes per rank, for any P, and gives the same bits for any bucket or chunk size.
// Everything happens in place; only received parts need room, which is allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

struct EngineOptions {
  size_t chunk_bytes = 0;  // of one message; 0 chooses by the number of ranks. Equal on all ranks
  size_t slots = 8;        // chunks that an owner receives at a time
};

template <typename T>
class Engine {
 public:
  // `buckets` are the places to sum, not owned; equal sizes on all ranks.
  Engine(int rank, int size, std::vector<std::span<T>> buckets, const EngineOptions& options = {});

  // This rank's part of the bucket is there, and belongs to the engine until the bucket is
  // complete.
  void OnReady(int bucket);
  // Moves what can be moved; says whether anything did.
  bool Poll(Transport& transport);
  // Buckets that became complete since the last call: sums in place, memory given back.
  std::vector<int> TakeComplete();
  bool Idle() const { return active_.empty() && new_.empty(); }
  std::vector<int> Awaited() const;  // ranks whose parts or sums are missing

  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  using Request = Transport::Request;
  struct Lane {  // between this rank and the owner of a segment
    int owner;
    int64_t begin, end;
    std::vector<Request> sends;    // of this rank's part, by chunk; 0 once done
    std::vector<Request> results;  // receives of the sum; posted when the part is out of the way
    size_t posted = 0;
    size_t arrived = 0;
  };
  struct Active {  // a bucket under way
    int bucket;
    std::vector<Lane> lanes;
    int64_t own_at = 0, own_end = 0;  // this rank's segment, from the first chunk not summed yet
    std::vector<Request> own_sends;
  };
  struct Slot {  // room for the others' parts of one chunk of this rank's segment
    std::vector<T> room;
    std::vector<Request> receives;  // by rank; 0 once done
    int bucket = -1;                // -1: free
    int64_t begin = 0, end = 0;
  };
  struct OwnedChunk {
    int bucket;
    int64_t begin, end;
  };

  int64_t SegmentBegin(int bucket, int owner) const;
  Active& FindActive(int bucket);
  void Start(Transport& transport, int bucket);
  bool PollLane(Transport& transport, int bucket, Lane& lane);
  bool FillSlots(Transport& transport);
  bool PollSlot(Transport& transport, Slot& slot);
  bool Sweep(Transport& transport, std::vector<Request>& sends);
  Request Send(Transport& transport, int to, int tag, const T* data, int64_t count);

  const int rank_;
  const int size_;
  const std::vector<std::span<T>> buckets_;
  int64_t chunk_;  // elements
  std::vector<Slot> slots_;
  std::vector<int> new_;          // ready, not started
  std::deque<Active> active_;     // in the order of their start
  std::deque<OwnedChunk> owned_;  // wait for a slot
  std::vector<int> complete_;
  int64_t bytes_sent_ = 0;
};

}  // namespace carafe
