#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "carafe/comm/comm_thread.h"
#include "carafe/comm/tags.h"
#include "carafe/exchange/carrier.h"
#include "carafe/exchange/votes.h"

namespace carafe {
namespace {

// The part that lives on the communication thread: polled there, and asked nothing but the atomics
// from outside.
template <typename T>
class AgreementPoller final : public Poller {
 public:
  AgreementPoller(const SchemeKind& kind, const SchemeSettings& settings, int rank, int size,
                  const std::vector<BucketPlace<T>>& buckets)
      : sums_(buckets.size()),
        values_(buckets.size()),
        agreement_(kind, settings, rank, size, buckets, {kExchangeTag, kExchangePayloadTag}),
        ballot_(rank, size, settings.timeout >= 0),
        updates_(agreement_.updates()),
        hands_out_(kind.root_updates),
        timeout_(rank == 0 ? settings.timeout : -1),
        times_up_(buckets.size() + 1, kNever) {}

  // On the communication thread.
  void OnGradients(int bucket) {
    agreement_.OnGradients(bucket);
    StartClock(static_cast<size_t>(bucket));
  }
  void OnUpdated(int bucket) { agreement_.OnUpdated(bucket); }
  void OnVotes(const StepVotes& mine) {
    ballot_.OnVotes(mine);
    StartClock(times_up_.size() - 1);
  }
  void Close() {
    agreement_.Close();
    ballot_.Close();
  }
  bool Poll(Transport& transport) override {
    if (timeout_ >= 0) LookAtClock();
    bool moved = ballot_.Poll(transport);
    if (ballot_.TakeComplete(&verdict_)) {
      good_.store(verdict_.bad == 0, std::memory_order_relaxed);
      verdicts_.fetch_add(1, std::memory_order_release);
    }
    moved |= agreement_.Poll(transport);
    for (int b : agreement_.TakeSums()) {
      sums_[b].fetch_add(1, std::memory_order_release);
      sums_here_.fetch_add(1, std::memory_order_release);
    }
    for (int b : agreement_.TakeValues()) values_[b].fetch_add(1, std::memory_order_release);
    bytes_sent_.store(agreement_.bytes_sent(), std::memory_order_relaxed);
    bytes_received_.store(agreement_.bytes_received(), std::memory_order_relaxed);
    closed_.store(Idle(), std::memory_order_release);
    return moved;
  }
  bool Idle() const override { return agreement_.Idle() && ballot_.Idle(); }
  bool Busy() const override { return agreement_.Busy() || ballot_.Busy(); }
  std::vector<int> Awaited() const override {
    std::vector<int> ranks = agreement_.Awaited();
    return ranks.empty() ? ballot_.Awaited() : ranks;
  }

  // From any thread.
  bool updates() const { return updates_; }
  bool hands_out() const { return hands_out_; }
  int64_t sums(int bucket) const { return sums_[bucket].load(std::memory_order_acquire); }
  int64_t values(int bucket) const { return values_[bucket].load(std::memory_order_acquire); }
  int64_t sums_here() const { return sums_here_.load(std::memory_order_acquire); }
  int64_t verdicts() const { return verdicts_.load(std::memory_order_acquire); }
  // Of the last verdict; nobody votes anew while somebody may ask.
  bool good() const { return good_.load(std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  int64_t bytes_received() const { return bytes_received_.load(std::memory_order_relaxed); }
  const StepVotes& verdict() const { return verdict_; }  // after verdicts() has grown

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  void StartClock(size_t what) {
    if (timeout_ >= 0)
      times_up_[what] = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_));
  }
  void LookAtClock() {
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < times_up_.size(); ++i) {
      if (now < times_up_[i]) continue;
      times_up_[i] = kNever;
      if (i + 1 < times_up_.size()) {
        agreement_.OnTimeUp(static_cast<int>(i));
      } else {
        ballot_.OnTimeUp();
      }
    }
  }

  std::vector<std::atomic<int64_t>> sums_, values_;  // steps, by bucket
  std::atomic<int64_t> sums_here_{0};                // of all buckets and steps
  std::atomic<int64_t> verdicts_{0};                 // steps
  std::atomic<bool> good_{false};                    // the last of them
  std::atomic<bool> closed_{false};
  std::atomic<int64_t> bytes_sent_{0}, bytes_received_{0};
  StepVotes verdict_;
  Agreement<T> agreement_;
  Ballot ballot_;
  const bool updates_;
  const bool hands_out_;                     // new values, to ranks that await them
  const double timeout_;                     // seconds; < 0: none
  std::vector<Clock::time_point> times_up_;  // of every bucket, then of the votes
};

SchemeSettings WithHosts(SchemeSettings settings, const std::vector<std::string>& hosts) {
  if (settings.local == 0) settings.local = LocalRanks(hosts);
  return settings;
}

template <typename T>
class RankCarrier final : public Carrier {
 public:
  RankCarrier(const SchemeKind& kind, const SchemeSettings& settings, CommThread& thread,
              const std::vector<BucketPlace<T>>& buckets, std::vector<std::string> names)
      : thread_(thread),
        names_(std::move(names)),
        poller_(kind, WithHosts(settings, thread.hosts()), thread.rank(), thread.size(), buckets) {
    thread_.Attach(&poller_);
  }
  ~RankCarrier() override { thread_.Detach(&poller_); }

  bool updates() const override { return poller_.updates(); }
  void Start(int bucket, bool last) override {
    thread_.Post([this, bucket] { poller_.OnGradients(bucket); }, last);
  }
  bool SumIsHere(int bucket, int64_t step) override { return poller_.sums(bucket) >= step; }
  int64_t sums_here() const override { return poller_.sums_here(); }
  void AwaitSum(int bucket, int64_t step, int64_t seen) override {
    if (SumIsHere(bucket, step)) return NoWaitFollows();
    AwaitAndPromise(fmt::format("the sum of the gradients of {} in step {}", names_[bucket], step),
                    [&] { return SumIsHere(bucket, step) || poller_.sums_here() > seen; });
    if (SumIsHere(bucket, step)) NoWaitFollows();
  }
  void NoWaitFollows() override {
    if (promised_.exchange(false, std::memory_order_relaxed)) thread_.NoWaitFollows();
  }
  void Updated(int bucket) override {
    thread_.Post([this, bucket] { poller_.OnUpdated(bucket); }, !poller_.hands_out());
  }
  void AwaitValues(int bucket, int64_t step) override {
    if (poller_.values(bucket) >= step) return NoWaitFollows();
    Await(fmt::format("the values of {} after step {}", names_[bucket], step),
          [&] { return poller_.values(bucket) >= step; });
  }
  void Vote(const StepVotes& mine) override {
    thread_.Post([this, mine] { poller_.OnVotes(mine); });
  }
  bool VerdictIsGood(int64_t step) override { return poller_.verdicts() >= step && poller_.good(); }
  StepVotes AwaitVerdict(int64_t step) override {
    AwaitAndPromise(fmt::format("the votes of step {}", step),
                    [&] { return poller_.verdicts() >= step; });
    return poller_.verdict();
  }
  void Close(int64_t steps) override {
    for (size_t b = 0; b < names_.size(); ++b)
      Await(fmt::format("the end of step {}", steps),
            [&] { return poller_.values(static_cast<int>(b)) >= steps; });
    thread_.Post([this] { poller_.Close(); });
    Await("the end of the exchange", [&] { return poller_.closed(); });
  }
  int64_t bytes_sent() const override { return poller_.bytes_sent(); }
  int64_t bytes_received() const override { return poller_.bytes_received(); }

 private:
  void Await(const std::string& what, const std::function<bool()>& done) {
    promised_.store(false, std::memory_order_relaxed);
    thread_.Await(what, done, &poller_);
  }
  // Leaves what is under way to the wait that follows, if one does.
  void AwaitAndPromise(const std::string& what, const std::function<bool()>& done) {
    thread_.Await(what, done, &poller_, true);
    promised_.store(true, std::memory_order_relaxed);
  }

  CommThread& thread_;
  const std::vector<std::string> names_;
  AgreementPoller<T> poller_;
  std::atomic<bool> promised_{false};  // a wait
};

}  // namespace

template <typename T>
std::unique_ptr<Carrier> MakeRankCarrier(const SchemeKind& kind, const SchemeSettings& settings,
                                         CommThread& thread, std::vector<BucketPlace<T>> buckets,
                                         std::vector<std::string> names) {
  return std::make_unique<RankCarrier<T>>(kind, settings, thread, buckets, std::move(names));
}

template std::unique_ptr<Carrier> MakeRankCarrier(const SchemeKind&, const SchemeSettings&,
                                                  CommThread&, std::vector<BucketPlace<float>>,
                                                  std::vector<std::string>);
template std::unique_ptr<Carrier> MakeRankCarrier(const SchemeKind&, const SchemeSettings&,
                                                  CommThread&, std::vector<BucketPlace<double>>,
                                                  std::vector<std::string>);

}  // namespace carafe
