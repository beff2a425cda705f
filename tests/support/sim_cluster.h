// Ranks under virtual time that train without computing: the schemes and the votes of every step,
// run by the same engine as in training. Sums and values are compared with sums made by hand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/scheme.h"
#include "carafe/exchange/votes.h"

namespace carafe {

// Workers that take their time: in every step the backward pass announces the buckets one after the
// other, the votes follow, and the next forward pass waits for the verdict, then for each bucket in
// turn. Every sum and every value that comes, on every rank, must be that of the tree of the
// layout, with all ranks in it: anything else is a failure of the test, and counts as wrong.
class SimCluster {
 public:
  struct Setup {
    std::string scheme = "allreduce";
    SchemeSettings settings = {};
    int ranks = 4;
    std::vector<int64_t> counts = {};  // in the order of the backward pass
    int steps = 1;
    bool payload = true;               // else sizes only; votes always have content
    double backward = 0, forward = 0;  // seconds per bucket
    const Codec* codec = nullptr;      // of all gradients; must lose nothing if there is a payload
    // Every bucket holds the parts of all ranks, which are gathered (BucketMemory::parts): `counts`
    // elements of each rank, and one more of every third. What was sent is summed on arrival.
    bool gathers = false;
  };

  SimCluster(const Setup& setup, SimNetwork& network);
  void Run() {
    network_.Run([this](int r) { Wake(r); });
  }

  // All ranks have made all steps.
  bool complete() const;
  bool finished(int r) const { return worker(r).step == setup_.steps; }
  const Engine& engine(int r) const { return *worker(r).engine; }
  const std::vector<float>& value(int r, int b) const {
    return worker(r).values[static_cast<size_t>(b)];
  }
  std::optional<std::string> error(int r) const { return worker(r).error; }
  int failures() const;
  int wrong() const { return wrong_; }     // sums, values and verdicts
  std::vector<int> WaitsFor(int r) const;  // ranks that this one waits for
  // Of a run that did not finish: ranks that would not notice it. A rank that is alive and has not
  // finished must have failed with a rank's name, or wait for ranks that are dead, have failed, or
  // wait in turn.
  std::vector<int> Unaware() const;

  double first_forward_done = -1;  // of rank 0, step 1, the layer that is needed first
  double last_value_there = -1;    // of rank 0, step 1

 private:
  struct Worker {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<VoteReduction> votes;
    std::vector<std::vector<float>> gradients, values;
    std::vector<int> ready;     // by bucket: steps whose values are there
    std::vector<int> complete;  // by bucket, where rank 0 updates: transfers of this step
    int step = 0;
    bool voting = false;
    int waits_for = -1;  // in the forward pass: a bucket
    std::optional<std::string> error;
  };

  Worker& worker(int r) { return workers_[static_cast<size_t>(r)]; }
  const Worker& worker(int r) const { return workers_[static_cast<size_t>(r)]; }
  int buckets() const { return static_cast<int>(setup_.counts.size()); }
  int64_t count(int bucket) const { return setup_.counts[static_cast<size_t>(bucket)]; }
  int64_t PartOf(int rank, int bucket) const { return count(bucket) + (rank % 3 == 1 ? 1 : 0); }
  int64_t PartBegin(int rank, int bucket) const;
  bool PartsAreRight(int r, int bucket) const;
  static float Gradient(int rank, int step, int bucket, int64_t i);
  static StepVotes Votes(int rank, int step);
  // By hand: the sum of all gradients of a step, the values after it, and the verdict.
  const std::vector<float>& Sum(int step, int bucket);
  const std::vector<float>& ValuesAfter(int step, int bucket);
  const StepVotes& Verdict(int step);

  void Backward(int r, int bucket);
  void Vote(int r);
  void Forward(int r, int bucket);
  void Pass(int r);
  void Wake(int r);
  bool Serve(int r);
  void SumIsHere(int r, int bucket);
  void ValuesAreHere(int r, int bucket);
  void Expect(bool right, const char* what, int rank, int step, int bucket);

  const Setup setup_;
  const Scheme& scheme_;
  SimNetwork& network_;
  std::vector<Worker> workers_;
  std::map<std::pair<int, int>, std::vector<float>> sums_, values_;  // by step and bucket
  std::map<int, StepVotes> verdicts_;                                // by step
  int wrong_ = 0;
};

}  // namespace carafe
