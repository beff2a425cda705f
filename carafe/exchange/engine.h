// Moves memory between ranks by programs (program.h). It has no clock, sleep, lock or MPI: its
// owner reports what is ready and polls it with a transport, so that the same code serves training
// and simulation.
//
// A transfer is a block of memory that moves in the same way in every step: a bucket of gradients
// that is summed, or a bucket of values that is sent out. It is cut in chunks, each a small state
// machine; the chunks of all transfers share one channel, most urgent first. Data move in place; a
// payload that arrives too early waits in a staging buffer, or in the transport's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "carafe/exchange/channel.h"
#include "carafe/exchange/codec.h"
#include "carafe/exchange/elements.h"
#include "carafe/exchange/program.h"

namespace carafe {

struct Transfer {
  void* data = nullptr;         // null: sizes only (simulation)
  int64_t count = 0;            // elements
  int priority = 0;             // lower is more urgent
  std::vector<Program> chunks;  // ranges within [0, count)
  // The parts of this rank's other workers, in their order: when a step starts they are added to
  // `data` in the fixed tree and set to 0.
  std::vector<void*> other_parts = {};
  // Instead of `priority`, for each send: called when it is due, on the thread that polls.
  std::function<int64_t(const Operation& send)> send_priority = {};
  bool clear_when_complete = false;  // set `data` to 0, as an update does with a gradient
  // With a codec (codec.h; elements are floats) messages are encoded unless they are plain: every
  // part at its source, and every sum at the rank that made it. Programs then add by kSum over all
  // parts, never by kAdd.
  const Codec* codec = nullptr;
  // `count` elements each, null without Codec::has_residual.
  float* part_residual = nullptr;  // of the parts that this rank encodes
  float* sum_residual = nullptr;   // of the sums that this rank makes
};

// data = the tree sum of `data` and `other_parts`, which become 0.
void AddOtherParts(const ElementType& elements, int64_t count, void* data,
                   const std::vector<void*>& other_parts);

// Single-threaded: one thread at a time calls it.
class Engine final : private ChannelEvents {
 public:
  // The transfers are the same on all ranks, but for their memory and programs. Memory is not
  // owned.
  Engine(int rank, int size, const ElementType& elements, std::vector<Transfer> transfers,
         const ChannelTags& tags);

  // Starts the next step of a transfer: this rank's data are complete or, where it only receives,
  // may be overwritten. The memory belongs to the engine until the transfer is complete. Once a
  // step, transfers in any order.
  void OnReady(int transfer);
  // As OnReady, for a transfer that only receives, and whose step may never come: Idle, Busy and
  // WaitsFor do not count it before Expect.
  void Listen(int transfer);
  // The step that Listen began is certain to come; it may be complete already.
  void Expect(int transfer);
  // No more than this leaves this rank, in bytes per second; Poll needs the time then.
  void Limit(double bytes_per_second) { channel_.Limit(SendPace(bytes_per_second)); }
  // When Poll may send what Limit holds back; < 0: there is nothing.
  double NextSend() const { return channel_.NextSend(); }
  // Sums that may skip late ranks proceed with the parts that have arrived.
  void OnTimeout(int transfer);
  void Close() { channel_.Close(); }  // no OnReady after this; on all ranks
  // Moves what can be moved; returns whether anything did.
  bool Poll(Transport& transport, double now = 0);
  // Transfers that became complete since the last call.
  std::vector<int> TakeComplete();
  bool Idle() const { return channel_.Idle() && active_ == 0; }
  // A transfer is active, or a peer may be waiting for an acknowledgement.
  bool Busy() const { return active_ > 0 || channel_.OwesAck(); }
  std::vector<int> WaitsFor() const;  // ranks that have yet to send or to receive something

  int64_t bytes_sent() const { return channel_.bytes_sent(); }
  int64_t bytes_received() const { return channel_.bytes_received(); }

 private:
  struct Arrival {
    int from;
    int label;
    int64_t step;
    std::byte* staging;   // from the pool, or null
    PayloadView view;     // set if the payload stays in the transport's memory or in a frame
    const void* content;  // in `staging` or `view`; null if it arrives in place, or has no memory
    bool complete;        // the payload has arrived
  };
  // The encoded content of elements [begin, end) of a transfer.
  struct Encoded {
    int64_t begin, end;
    std::unique_ptr<std::byte[]> bytes;  // null in simulations
    bool current = false;                // encoded in this step
  };
  struct Chunk {
    const Program* program = nullptr;
    size_t next = 0;                // the operation to be done next
    std::vector<size_t> free_from;  // by operation: no operation from here on touches its range
                                    // before it does
    std::vector<size_t> sending;    // kSend operations whose memory is still in use
    std::vector<Arrival> arrivals;
    std::vector<int> late;         // ranks that the last sum with a timeout went without
    std::vector<Encoded> encoded;  // with a codec: by range that is sent or summed
    bool running = false;
  };
  struct ChunkId {
    int transfer, chunk;
  };
  struct State {
    std::vector<Chunk> chunks;
    size_t running = 0;  // chunks
    int64_t step = 0;    // of the last OnReady
    bool timed_out = false;
    bool counted = false;  // in active_
  };

  PayloadTarget TargetFor(int from, const Header& header, bool can_view) override;
  void OnArrived(int from, const Header& header, const PayloadView& view) override;
  void OnSent(uint64_t ticket) override;

  void CheckProgram(const Transfer& transfer, const Program& program, Chunk& chunk);
  static void AddEncoded(const Transfer& transfer, const Program& program, Chunk& chunk);
  size_t ExpectedOperation(int from, const Header& header) const;
  bool Advance(ChunkId id);
  bool Do(ChunkId id, Chunk& chunk);
  void Send(ChunkId id, Chunk& chunk);
  bool Sum(ChunkId id, Chunk& chunk);
  void SumParts(const RankGroup& group, const std::vector<const void*>& parts, int64_t count,
                void* data) const;
  bool SumWithoutLate(ChunkId id, Chunk& chunk);
  bool Receive(ChunkId id, Chunk& chunk);
  static Encoded* FindEncoded(Chunk& chunk, const Operation& operation);
  const void* EncodePart(ChunkId id, Chunk& chunk, const Operation& operation);
  void SumEncoded(ChunkId id, Chunk& chunk, std::vector<const void*>& parts);
  void ReceiveEncoded(ChunkId id, Chunk& chunk, const void* content);
  void Complete(int transfer);
  void Begin(int transfer, bool counted);
  Arrival* Find(Chunk& chunk, int from, int label, int64_t step);
  void Forget(Chunk& chunk, const Arrival* arrival);
  bool IsBeingSent(const Chunk& chunk, const Operation& operation) const;
  std::byte* TakeStaging();
  std::byte* DataOf(int transfer, int64_t begin) const;
  size_t BytesOf(int transfer, const Operation& operation) const;

  const int rank_;
  const int size_;
  const ElementType& elements_;
  const std::vector<Transfer> transfers_;
  std::vector<State> states_;
  Channel channel_;
  const size_t staging_bytes_;  // of one staging buffer: the longest message
  std::vector<std::unique_ptr<std::byte[]>> staging_;
  std::vector<std::byte*> free_staging_;
  std::vector<float> decoded_;  // parts of the sum that is being made
  std::vector<ChunkId> woken_;  // chunks that may proceed
  std::vector<int> complete_;
  int64_t active_ = 0;              // transfers
  Transport* transport_ = nullptr;  // during Poll
};

}  // namespace carafe
