// What carries sums and values for a synchronous exchange: nothing but memory on one rank, the
// communication thread on several.
#pragma once

#include <memory>
#include <vector>

#include "carafe/exchange/exchange.h"
#include "carafe/exchange/plan.h"

namespace carafe {

// Steps count from 1. Start, SumIsHere, AwaitSum, AwaitValues, Updated, Vote and what needs no wait
// are called by any worker's thread, the rest by that of worker 0.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual bool updates() const = 0;  // this rank does; else its values come from rank 0
  // All gradients of the bucket are final, on this rank. `last`: the end of the step follows.
  virtual void Start(int bucket, bool last) = 0;
  virtual bool SumIsHere(int bucket, int64_t step) = 0;
  virtual int64_t sums_here() const = 0;  // of all buckets and steps
  // Where updates(): returns when the sum is here, or more sums than `seen` in all.
  virtual void AwaitSum(int bucket, int64_t step, int64_t seen = INT64_MAX) = 0;
  // For whoever goes on to compute after AwaitSum or AwaitVerdict instead of waiting once more:
  // what is under way is left to the communication thread.
  virtual void NoWaitFollows() = 0;
  virtual void Updated(int bucket) = 0;                    // where updates()
  virtual void AwaitValues(int bucket, int64_t step) = 0;  // where not
  virtual void Vote(const StepVotes& mine) = 0;
  virtual bool VerdictIsGood(int64_t step) = 0;  // it is here, and nobody's votes are bad
  virtual StepVotes AwaitVerdict(int64_t step) = 0;
  virtual void Close(int64_t steps) = 0;  // everything has arrived; collective
  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
};

// One rank: its workers' gradients are added when the sum is asked for.
template <typename T>
std::unique_ptr<Carrier> MakeLocalCarrier(std::vector<BucketPlace<T>> buckets);
// Several ranks. `names` are what a wait for a bucket is called.
template <typename T>
std::unique_ptr<Carrier> MakeRankCarrier(const SchemeKind& kind, const SchemeSettings& settings,
                                         CommThread& thread, std::vector<BucketPlace<T>> buckets,
                                         std::vector<std::string> names);

}  // namespace carafe
