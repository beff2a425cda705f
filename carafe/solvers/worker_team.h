// The workers of one rank: replicas of the net that share its learned parameters, each with a
// thread, a stream and gradients of its own. Worker 0 is the caller's: its net and stream come from
// outside.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "carafe/core/run_context.h"
#include "carafe/net/net.h"

namespace carafe {

// Sums over all workers of all ranks, in the fixed tree: the workers of this rank first, then the
// ranks. Every worker calls its own part alike; worker 0 speaks to the other ranks.
class TeamSum {
 public:
  TeamSum(int workers, GroupSum& group);
  GroupSum& part(int worker) { return parts_[static_cast<size_t>(worker)]; }
  // A worker has thrown: those that wait for it throw too.
  void BreakOff();

 private:
  struct Part final : GroupSum {
    void Sum(std::span<double> values) override { team->Sum(worker, values); }
    TeamSum* team = nullptr;
    int worker = 0;
  };
  void Sum(int worker, std::span<double> values);
  void Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);

  GroupSum& group_;  // of the ranks
  std::vector<Part> parts_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::span<double>> given_;  // by worker
  int64_t round_ = 0;                     // sums made
  size_t here_ = 0;                       // workers that have given their values
  bool broken_ = false;
};

template <typename T>
class WorkerTeam {
 public:
  // `make_net` builds one more net like `first`, which outlives the team as its stream does.
  WorkerTeam(int workers, Net<T>& first, Stream& stream,
             const std::function<std::unique_ptr<Net<T>>()>& make_net);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return static_cast<int>(members_.size()); }
  Net<T>& net(int worker) { return *members_[static_cast<size_t>(worker)].net; }
  Stream& stream(int worker) { return *members_[static_cast<size_t>(worker)].stream; }

  // Calls work(w) for every worker at once, worker 0's on the calling thread; returns when all have
  // ended, and throws what the first of them threw. `failed` is told at once when one throws.
  void Run(const std::function<void(int worker)>& work, const std::function<void()>& failed);

 private:
  struct Member {
    Net<T>* net = nullptr;
    Stream* stream = nullptr;
    std::unique_ptr<Net<T>> own_net;
    std::unique_ptr<Stream> own_stream;
    std::thread thread;
  };
  void Serve(int worker);
  void Do(int worker) noexcept;

  std::vector<Member> members_;
  std::mutex mutex_;  // guards all below
  std::condition_variable begin_, end_;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void()>* failed_ = nullptr;
  std::exception_ptr error_;
  int64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
};

}  // namespace carafe
