// The collectives before and after the steps, as pollers of the communication thread. Direct and
// simple: they send a few messages per job, not per step. They own the memory that they give to the
// transport, so that a failure may end their users at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "carafe/comm/comm_thread.h"

namespace carafe {

// Precedes every payload, so that ranks that make different calls notice it.
struct CollectiveHeader {
  uint64_t call;  // number of the collective call
  uint64_t kind;
  uint64_t bytes;
};

// Everyone sends to everyone.
class AllGatherPoller final : public Poller {
 public:
  AllGatherPoller(int rank, int size, uint64_t call, const std::string& mine);
  bool Poll(Transport& transport) override;
  bool Idle() const override { return !started_ || done(); }
  std::vector<int> WaitsFor() const override;
  bool done() const { return done_.load(std::memory_order_acquire); }
  std::vector<std::string> Take();  // after done()

 private:
  struct Part {
    CollectiveHeader header = {};
    std::string text;
    Transport::Request receive = 0;
    bool has_header = false;
    bool complete = false;
    size_t received = 0;
  };
  void Start(Transport& transport);
  bool Advance(Transport& transport, int from);

  const int rank_;
  const CollectiveHeader mine_;
  std::vector<Part> parts_;
  std::vector<Transport::Request> sends_;
  bool started_ = false;
  std::atomic<bool> done_{false};
};

// Down a binomial tree from root, in chunks that are passed on as they come.
class BroadcastPoller final : public Poller {
 public:
  // `data` holds the bytes at root, and as many of any value elsewhere.
  BroadcastPoller(int rank, int size, uint64_t call, std::vector<char> data, int root);
  bool Poll(Transport& transport) override;
  bool Idle() const override { return !started_ || done(); }
  std::vector<int> WaitsFor() const override;
  bool done() const { return done_.load(std::memory_order_acquire); }
  const std::vector<char>& data() const { return data_; }  // after done()

 private:
  void SendToChildren(Transport& transport, const void* data, size_t bytes);
  size_t ChunkBytes(size_t begin) const;

  std::vector<char> data_;
  const CollectiveHeader header_;
  CollectiveHeader received_ = {};
  int parent_ = -1;
  std::vector<int> children_;
  std::vector<Transport::Request> sends_;
  Transport::Request receive_ = 0;
  bool started_ = false;
  bool has_header_ = false;
  bool receiving_ = false;
  size_t have_ = 0;  // bytes that are here and passed on
  std::atomic<bool> done_{false};
};

}  // namespace carafe
