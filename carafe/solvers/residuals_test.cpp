#include "carafe/solvers/residuals.h"

#include <gtest/gtest.h>

#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/wire_codec.h"
#include "tests/support/host_of_rank.h"
#include "tests/support/param_arena.h"

namespace carafe {
namespace {

constexpr int64_t kCount = 300;

// The sum over all ranks of all residuals of the exchange, by element.
std::vector<double> Owed(Exchange<float>& exchange, Group& group) {
  std::vector<double> sum(kCount);
  for (const StateTensor<float>& tensor : exchange.state())
    for (int64_t i = 0; i < tensor.count; ++i) At(sum, i) += tensor.data[i];
  group.Sum(sum);
  return sum;
}

class OneParam {
 public:
  OneParam(Group& group, const Codec* codec, size_t message) : arena_({kCount}) {
    arena_.params[0].codec = codec;
    exchange_ = MakeExchange<float>("allreduce", {.group = group,
                                                  .params = arena_.params,
                                                  .update = [](int, Stream&) {},
                                                  .scheme = {.message_bytes = message}});
  }
  Exchange<float>& exchange() { return *exchange_; }
  std::vector<float> Step(int rank) {
    Stream stream;
    for (int64_t i = 0; i < kCount; ++i)
      At(arena_.memory, i) = 1.0f / static_cast<float>(3 + rank + i);
    exchange_->GradientReady(0, 0, stream);
    exchange_->Vote({});
    exchange_->FinishStep();
    exchange_->AwaitVerdict();
    exchange_->Drain(0, stream);
    return arena_.memory;
  }

 private:
  Arena<float> arena_;
  std::unique_ptr<Exchange<float>> exchange_;
};

// Three steps in one exchange, or the last of them in another one with other messages.
TEST(Residuals, MoveToAnotherPlanWithTheSameBits) {
  const auto codec = MakeWireCodec("bf16");
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "b", "c"}, {"a", "a", "b"}, {"a", "a", "a"}})
    RunRanks(
        3,
        [&](Group& group) {
          std::vector<float> expected;
          {
            OneParam one(group, codec.get(), 0);
            for (int step = 0; step < 3; ++step) expected = one.Step(group.rank());
          }
          Residuals<float> residuals;
          {
            OneParam first(group, codec.get(), 0);
            for (int step = 0; step < 2; ++step) first.Step(group.rank());
            residuals.Gather(first.exchange(), group, 3);
          }
          OneParam second(group, codec.get(), 100);
          residuals.Restore(second.exchange(), group, 3);
          residuals.Gather(second.exchange(), group, 3);  // before any step: nothing is doubled
          residuals.Restore(second.exchange(), group, 3);
          EXPECT_EQ(second.Step(group.rank()), expected);
        },
        {}, OnHosts(hosts));
}

TEST(Residuals, KeepTheirSumPerWorkerOnAnotherNumberOfRanks) {
  const auto codec = MakeWireCodec("topk:0.05");
  Residuals<float> kept;  // rank 0's
  std::vector<double> owed;
  RunRanks(3, [&](Group& group) {
    OneParam one(group, codec.get(), 0);
    for (int step = 0; step < 2; ++step) one.Step(group.rank());
    Residuals<float> residuals;
    residuals.Gather(one.exchange(), group, 3);
    const std::vector<double> sum = Owed(one.exchange(), group);
    if (group.rank() != 0) return;
    EXPECT_EQ(residuals.tensors().size(), 4u) << "three sources, and the sums";
    kept = residuals;
    owed = sum;
  });
  RunRanks(2, [&](Group& group) {
    OneParam one(group, codec.get(), 0);
    Residuals<float> residuals;
    if (group.rank() == 0) residuals = kept;
    residuals.Restore(one.exchange(), group, 4);  // two workers a rank
    const std::vector<double> sum = Owed(one.exchange(), group);
    double largest = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(At(sum, i), At(owed, i) * 4 / 3, 1e-5) << i;
      largest = std::max(largest, std::abs(At(owed, i)));
    }
    EXPECT_GT(largest, 0.01);
    // Nothing was read: nothing is owed.
    residuals.Restore(one.exchange(), group, 4);
    for (double left : Owed(one.exchange(), group)) EXPECT_EQ(left, 0);
  });
}

}  // namespace
}  // namespace carafe
