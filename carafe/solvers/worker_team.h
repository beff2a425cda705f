// The workers of one rank: replicas of the net, each with a thread, a stream and gradients of its
// own. Those on one device share its learned parameters; on each other device a worker has a copy,
// which the exchange keeps up to date. Worker 0 is the caller's: its net and stream come from
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
// ranks. Every worker makes the same calls of its own part; worker 0 calls the other ranks.
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

struct TeamSettings {
  int workers = 1;
  Replica replica;  // of worker 0; the indices of the others follow
  bool sync_batch_norm = false;
  Trace* trace = nullptr;  // used by the threads of all workers
  // Of workers 1, 2, .., each on another GPU. Empty: made here, on the device of worker 0. They
  // outlive the team.
  std::vector<Stream*> other_streams = {};
};

// Used by the thread of worker 0, but for Context, replica, net and stream, which each worker calls
// for itself.
template <typename T>
class WorkerTeam {
 public:
  // `make_net` builds one more net like `first` for that stream; `first` and `stream` outlive the
  // team.
  WorkerTeam(const TeamSettings& settings, Net<T>& first, Stream& stream,
             const std::function<std::unique_ptr<Net<T>>(Stream&)>& make_net);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return static_cast<int>(members_.size()); }
  Net<T>& net(int worker) { return *members_[static_cast<size_t>(worker)].net; }
  Replica replica(int worker) const;
  Trace* trace() const { return settings_.trace; }
  Stream& stream(int worker) { return *members_[static_cast<size_t>(worker)].stream; }
  bool shares_values(int worker) { return &stream(worker).device() == &stream(0).device(); }
  // Workers with values of their own take over those of worker 0, learned and frozen.
  void CopyValues();

  // From now on layers can sum over the workers of all ranks (RunContext::group). The group
  // outlives the team, or the last Run.
  void Connect(GroupSum& group);
  RunContext Context(int worker, const Pass& pass);

  // Calls work(w) for every worker at once, worker 0's on the calling thread; returns when all have
  // ended, and throws what the first of them threw. When one throws, the others' sums over the
  // workers throw, too.
  void Run(const std::function<void(int worker)>& work);

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

  const TeamSettings settings_;
  std::vector<Member> members_;
  std::unique_ptr<TeamSum> sum_;  // null with one worker in all
  std::mutex mutex_;              // guards all below
  std::condition_variable begin_, end_;
  const std::function<void(int)>* work_ = nullptr;
  std::exception_ptr error_;
  int64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
};

}  // namespace carafe
