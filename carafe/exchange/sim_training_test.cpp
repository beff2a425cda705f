#include "carafe/exchange/sim_training.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace carafe {
namespace {

constexpr int64_t kInputs = 240, kOutputs = 120, kRows = 4;
constexpr int64_t kConv = 12000, kFull = kInputs * kOutputs;
constexpr int64_t kBytes = 4 * (kConv + kFull);

// A convolution and a fully connected layer, 10 ms each way for each layer.
SimNet Net(bool factors = false) {
  return {.params = {{.count = kConv},
                     {.count = kFull, .factors = {factors ? kRows : 0, kOutputs, kInputs}}},
          .layers = {{.forward = 0.01, .backward = 0.01, .params = {0}},
                     {.forward = 0.01, .backward = 0.01, .params = {1}}}};
}

constexpr SimOptions kFast{.latency = 1e-7, .bandwidth = 1e13, .overhead = 0};
constexpr SimOptions kSlow{.latency = 1e-5, .bandwidth = 1e5, .overhead = 0};

TEST(SimTraining, BytesAreThoseOfTheFormulas) {
  for (const int ranks : {2, 4, 8}) {
    const auto bytes = [&](const std::string& exchange, bool factors = false) {
      return SimulateTraining(Net(factors), {.exchange = exchange, .ranks = ranks}).bytes;
    };
    EXPECT_EQ(bytes("allreduce"), 2 * kBytes * (ranks - 1) / ranks);
    EXPECT_EQ(bytes("ssp"), 2 * kBytes * (ranks - 1) / ranks);
    EXPECT_EQ(bytes("server"), kBytes * (ranks - 1));
    EXPECT_EQ(bytes("allreduce", true),
              2 * 4 * kConv * (ranks - 1) / ranks + 4 * kRows * (ranks - 1) * (kInputs + kOutputs));
  }
}

TEST(SimTraining, AFastNetworkIsHiddenBehindTheBackwardPass) {
  for (const char* exchange : {"allreduce", "server", "tree", "ssp"}) {
    const SimOutcome outcome =
        SimulateTraining(Net(), {.exchange = exchange, .ranks = 4, .network = kFast});
    EXPECT_NEAR(outcome.step_seconds, 0.04, 1e-4) << exchange;
    EXPECT_NEAR(outcome.compute_seconds, 0.04, 1e-9) << exchange;
  }
}

TEST(SimTraining, ASlowNetworkIsTheLimit) {
  const SimOutcome sum = SimulateTraining(Net(), {.ranks = 4, .network = kSlow});
  const double transfers = 2 * kBytes * 0.75 / kSlow.bandwidth;
  EXPECT_GT(sum.step_seconds, transfers);
  EXPECT_LT(sum.step_seconds, 1.5 * transfers);
  const SimOutcome server =
      SimulateTraining(Net(), {.exchange = "server", .ranks = 4, .network = kSlow});
  EXPECT_GT(server.step_seconds, 3 * kBytes / kSlow.bandwidth);
}

TEST(SimTraining, UpdatesAndProductsTakeTheirTime) {
  SimNet net = Net(true);
  net.update_per_byte = 1e-3 / kBytes;
  net.flops = 2.0 * kRows * kFull / 1e-3;  // 1 ms for the rows of each other rank
  const SimOutcome outcome = SimulateTraining(net, {.ranks = 4, .network = kFast});
  EXPECT_NEAR(outcome.compute_seconds, 0.04 + 0.001 + 0.003, 1e-9);
  EXPECT_NEAR(outcome.compute_seconds, net.ComputeSeconds(4), 1e-9);
  EXPECT_NEAR(outcome.step_seconds, outcome.compute_seconds, 1e-4);
}

TEST(SimTraining, TheSlowestRankSetsThePace) {
  const auto slow = [](int rank, int64_t) { return rank == 1 ? 3.0 : 1.0; };
  for (const char* exchange : {"allreduce", "tree", "ssp"}) {
    const SimOutcome outcome = SimulateTraining(
        Net(), {.exchange = exchange, .ranks = 4, .network = kFast, .slowdown = slow});
    EXPECT_NEAR(outcome.step_seconds, 0.12, 1e-3) << exchange;
    EXPECT_NEAR(outcome.compute_seconds, 0.06, 1e-3) << exchange;
  }
}

// Every rank is slow in another step: with a staleness nobody waits for it.
TEST(SimTraining, AStalenessHidesRanksThatAreSlowNowAndThen) {
  const auto slow = [](int rank, int64_t step) { return step % 4 == rank ? 3.0 : 1.0; };
  const auto step = [&](int staleness) {
    return SimulateTraining(Net(), {.exchange = "ssp",
                                    .ranks = 4,
                                    .staleness = staleness,
                                    .steps = 16,
                                    .network = kFast,
                                    .slowdown = slow})
        .step_seconds;
  };
  EXPECT_NEAR(step(0), 0.12, 2e-3);
  EXPECT_LT(step(4), 0.08);
}

TEST(SimTraining, CountsTheMessagesOfAStep) {
  for (const char* exchange : {"allreduce", "server", "ssp"}) {
    const SimCase c{.exchange = exchange, .ranks = 8, .steps = 2};
    const int64_t expected = MessagesOfStep(Net(), c);
    const int64_t sent = SimulateTraining(Net(), c).messages;
    EXPECT_GE(sent, 2 * expected) << exchange;
    EXPECT_LE(sent, 30 * expected) << exchange;  // with headers, acknowledgements and votes
  }
}

}  // namespace
}  // namespace carafe
