// The ranks that train together, as the compute thread sees them: blocking collectives for set-up
// and borders, errors that all ranks throw together, and the way to end all ranks. The steps
// themselves go through exchange/.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carafe/comm/timeouts.h"
#include "carafe/core/run_context.h"

namespace carafe {

class CommThread;

// Used by one thread of its rank: the compute thread. Every rank makes the same collective calls in
// the same order. `what` says in a few words what is awaited ("weights of layer conv1"); it appears
// in warnings and errors. Each wait ends with CommError when a peer fails, falls silent, or does
// not come within timeouts.wait. With one rank nothing waits, and there is no thread.
//
// Shape of a program: catch where group, exchange and net are still alive, and let the group decide
// who prints:
//   try { ...train... } catch (const std::exception& error) {
//     group.Fail(error.what(), [&] { Print(error.what()); });
//     return 1;
//   }
class Group : public GroupSum {
 public:
  Group();  // rank 0 of 1
  // Takes over a running thread; the ranks exchange host names here.
  explicit Group(std::unique_ptr<CommThread> thread);
  ~Group() override;  // leaves the group normally unless it has failed
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  const std::string& host() const { return hosts_[rank_]; }
  const std::string& host(int rank) const { return hosts_[rank]; }
  int local_rank() const { return local_rank_; }  // among the ranks of the same host
  int local_size() const { return local_size_; }
  bool shares_memory() const;  // with other ranks of this host; see Transport

  void Barrier(std::string_view what);
  // All ranks give the same size; afterwards all have root's bytes.
  void Broadcast(void* data, size_t bytes, int root, std::string_view what);
  // Element r is what rank r gave; lengths may differ.
  std::vector<std::string> AllGather(const std::string& mine, std::string_view what);
  // Sums in the fixed tree: bit-equal on every rank.
  void Sum(std::span<double> values) override;

  // Runs `body` on this rank as on every other. If it throws Error on any rank, all ranks throw the
  // error of the lowest failing rank: the same kind and fields, marked `rank R on HOST: ` unless
  // every rank failed. The group stays usable, and all ranks can exit normally. Other exceptions
  // pass through; the caller then calls Fail. `body` may be empty on some ranks.
  void Together(std::string_view what, const std::function<void()>& body);
  // The same, with `body` run on rank 0 only.
  void OnRoot(std::string_view what, const std::function<void()>& body);

  // This rank ends with an error. Unless it is one that Together threw on all ranks, the current or
  // next wait of every other rank throws CommError with this rank, its host and the text. Every
  // rank that got an error calls this; `report` is called on exactly one of them: rank 0, or its
  // substitute if rank 0 is lost or does not react in time. Returns when that is done, or after a
  // few times timeouts.farewell.
  void Fail(const std::string& text, const std::function<void()>& report = {}) noexcept;
  // After Fail: whether the error was thrown on all ranks, so that all of them exit normally.
  bool failed_together() const { return failed_together_; }
  // After Fail: whether every rank knows. One that does not hangs, or is cut off, and will not end
  // by itself.
  bool AllKnow() const noexcept;
  // `asked` is set (by a signal handler) when this process is told to end; it outlives the group.
  // From then on a wait says at once what it is for: a launcher that ends the ranks because one has
  // died does not let them wait for their timeouts.
  void WatchForEnd(const std::atomic<bool>& asked);
  // Throws CommError if some rank has failed; for loops without waits.
  void Check();
  // Asks the launcher to end all ranks at once, this process too: the last resort of a main() that
  // has printed its error and must not leave hanging ranks behind.
  void Abort(const std::string& message) noexcept;

  // Long work that the other ranks wait for (a test, a snapshot): while it is announced, their
  // waits do not count the time. "" ends it. See Announcement.
  void Announce(const std::string& work);

  CommThread* thread() const { return thread_.get(); }  // null with one rank

 private:
  std::unique_ptr<CommThread> thread_;
  int rank_ = 0;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::string common_error_;  // the text of the last error that Together threw on all ranks
  bool failed_together_ = false;
  uint64_t calls_ = 0;  // collectives so far: ranks that fall out of step notice it
  std::vector<std::string> hosts_;
};

// Announces long work of this rank for as long as it lives.
class Announcement {
 public:
  Announcement(Group& group, const std::string& work) : group_(group) { group_.Announce(work); }
  ~Announcement() { group_.Announce(""); }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  Group& group_;
};

}  // namespace carafe
