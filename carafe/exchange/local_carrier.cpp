#include <algorithm>
#include <utility>

#include "carafe/core/tree_sum.h"
#include "carafe/exchange/carrier.h"

namespace carafe {
namespace {

template <typename T>
class LocalCarrier final : public Carrier {
 public:
  explicit LocalCarrier(std::vector<BucketPlace<T>> buckets) : buckets_(std::move(buckets)) {}

  bool updates() const override { return true; }
  void Start(int, bool) override {}
  bool SumIsHere(int, int64_t) override { return true; }
  int64_t sums_here() const override { return 0; }
  void NoWaitFollows() override {}
  // Called once a step and bucket, by whoever is about to update.
  void AwaitSum(int bucket, int64_t, int64_t) override {
    const BucketPlace<T>& b = buckets_[bucket];
    if (b.other_gradients.empty()) return;
    std::vector<const T*> parts = {b.gradient};
    parts.insert(parts.end(), b.other_gradients.begin(), b.other_gradients.end());
    TreeSum<T>(parts, b.count, b.gradient);
    for (T* other : b.other_gradients) std::fill(other, other + b.count, T(0));
  }
  void Updated(int) override {}
  void AwaitValues(int, int64_t) override {}
  void Vote(const StepVotes& mine) override { votes_ = mine; }
  bool VerdictIsGood(int64_t) override { return votes_.bad == 0; }
  StepVotes AwaitVerdict(int64_t) override { return votes_; }
  void Close(int64_t) override {}
  int64_t bytes_sent() const override { return 0; }
  int64_t bytes_received() const override { return 0; }

 private:
  const std::vector<BucketPlace<T>> buckets_;
  StepVotes votes_;
};

}  // namespace

template <typename T>
std::unique_ptr<Carrier> MakeLocalCarrier(std::vector<BucketPlace<T>> buckets) {
  return std::make_unique<LocalCarrier<T>>(std::move(buckets));
}

template std::unique_ptr<Carrier> MakeLocalCarrier(std::vector<BucketPlace<float>>);
template std::unique_ptr<Carrier> MakeLocalCarrier(std::vector<BucketPlace<double>>);

}  // namespace carafe
