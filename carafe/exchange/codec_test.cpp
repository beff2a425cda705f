// Codecs between gradients and the wire: a lossless one changes no bit, one that truncates to bf16
// halves the bytes and keeps replicas equal, and residuals carry what an encoding lost.
#include "carafe/exchange/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/sim_transport.h"
#include "carafe/comm/tags.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/delayed_transport.h"
#include "tests/support/exchange_values.h"
#include "tests/support/host_of_rank.h"
#include "tests/support/param_arena.h"
#include "tests/support/sim_cluster.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

// All bits, inverted: a payload that was not decoded is never right.
class Inverted final : public Codec {
 public:
  std::string name() const override { return "inverted"; }
  size_t EncodedBytes(int64_t count) const override {
    return static_cast<size_t>(count) * sizeof(float);
  }
  void Encode(const float* values, int64_t count, float*, std::byte* encoded) const override {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = ~std::bit_cast<uint32_t>(values[i]);
      std::memcpy(encoded + i * 4, &bits, 4);
    }
  }
  void Decode(const std::byte* encoded, int64_t count, float* values) const override {
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, encoded + i * 4, 4);
      values[i] = std::bit_cast<float>(~bits);
    }
  }
};

float Truncated(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000u);
}

// The upper half of a float.
class Bf16 final : public Codec {
 public:
  explicit Bf16(bool with_residual = false) : with_residual_(with_residual) {}
  std::string name() const override { return with_residual_ ? "bf16 with residual" : "bf16"; }
  size_t EncodedBytes(int64_t count) const override { return static_cast<size_t>(count) * 2; }
  bool has_residual() const override { return with_residual_; }
  void Encode(const float* values, int64_t count, float* residual,
              std::byte* encoded) const override {
    for (int64_t i = 0; i < count; ++i) {
      const float value = residual ? values[i] + residual[i] : values[i];
      if (residual) residual[i] = value - Truncated(value);
      const auto upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      std::memcpy(encoded + i * 2, &upper, 2);
    }
  }
  void Decode(const std::byte* encoded, int64_t count, float* values) const override {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t upper = 0;
      std::memcpy(&upper, encoded + i * 2, 2);
      values[i] = std::bit_cast<float>(uint32_t{upper} << 16);
    }
  }

 private:
  const bool with_residual_;
};

TEST(Codec, ThatLosesNothingChangesNoBit) {
  const Inverted codec;
  for (int ranks : {2, 3, 4, 8})
    for (int workers : {1, 2}) {
      const std::vector<float> plain = RunValues({.ranks = ranks, .workers = workers}).values;
      for (size_t message : {size_t{0}, size_t{100}}) {
        ValuesCase encoded{.ranks = ranks,
                           .workers = workers,
                           .settings = {.message_bytes = message},
                           .codec = &codec};
        EXPECT_EQ(RunValues(encoded).values, plain) << ranks << " x " << workers;
        encoded.link = Delayed(static_cast<uint64_t>(ranks), true);
        EXPECT_EQ(RunValues(encoded).values, plain) << ranks << " x " << workers << ", delayed";
      }
    }
  EXPECT_EQ(RunValues({.ranks = 1, .workers = 4, .codec = &codec}).values,
            RunValues({.ranks = 1, .workers = 4}).values);
}

TEST(Codec, ThatLosesNothingChangesNoBitUnderAnySchedule) {
  const Inverted codec;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 6);
    SimNetwork network(ranks, {.jitter = seed % 2 ? 1e-3 : 1e-5, .seed = seed});
    SimCluster cluster({.settings = {.message_bytes = 64},
                        .ranks = ranks,
                        .counts = {3, 20, 1},
                        .steps = 3,
                        .backward = 1e-5,
                        .forward = 1e-5,
                        .codec = &codec},
                       network);
    cluster.Run();
    ASSERT_TRUE(cluster.complete()) << "seed " << seed;
    ASSERT_EQ(cluster.wrong(), 0) << "seed " << seed;
  }
}

// SimCluster with sizes only: 2 n (P-1)/P bytes, where n is that of the encoded gradients.
TEST(Codec, SendsTheEncodedBytesOnly) {
  const Bf16 bf16;
  constexpr int kRanks = 64;
  SimNetwork network(kRanks);
  SimCluster cluster({.ranks = kRanks,
                      .counts = {kRanks * 700, kRanks * 3},
                      .steps = 2,
                      .payload = false,
                      .codec = &bf16},
                     network);
  cluster.Run();
  ASSERT_TRUE(cluster.complete());
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(cluster.engine(r).bytes_sent(), 2 * 2 * (kRanks - 1) * 703 * 2);
    EXPECT_EQ(cluster.engine(r).bytes_received(), 2 * 2 * (kRanks - 1) * 703 * 2);
  }
}

TEST(Codec, Bf16KeepsReplicasEqualAndSendsLess) {
  const Bf16 bf16;
  const Inverted inverted;
  for (int ranks : {2, 3, 5}) {
    const ValuesResult whole = RunValues({.ranks = ranks, .codec = &inverted});
    const ValuesResult half = RunValues({.ranks = ranks, .codec = &bf16});  // compares replicas
    EXPECT_NE(half.values, whole.values);
    for (int r = 0; r < ranks; ++r) EXPECT_LT(At(half.bytes_sent, r), At(whole.bytes_sent, r));
  }
}

// Sums of one parameter over some steps of constant gradients; `state` is called at the end.
struct Sums {
  std::vector<std::vector<float>> by_step;  // rank 0's
  std::vector<int64_t> bytes_sent;
  std::vector<std::string> state_names;  // rank 1's
};

Sums SumsOf(int ranks, int steps, int64_t count, const Codec* codec) {
  Sums sums;
  sums.bytes_sent.resize(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Group& group) {
    Arena<float> arena({count});
    arena.params[0].codec = codec;
    Stream stream;
    const auto exchange =
        MakeExchange<float>("allreduce", {.group = group,
                                          .params = arena.params,
                                          .update =
                                              [&](int, Stream&) {
                                                if (group.rank() == 0)
                                                  sums.by_step.push_back(arena.memory);
                                              },
                                          .scheme = {.algorithm = "owners"}});
    for (int step = 0; step < steps; ++step) {
      for (int64_t i = 0; i < count; ++i)
        At(arena.memory, i) = OrderSensitive<float>(group.rank(), i);
      exchange->GradientReady(0, 0, stream);
      exchange->Vote({});
      exchange->FinishStep();
      exchange->AwaitVerdict();
      exchange->Drain(0, stream);
    }
    At(sums.bytes_sent, group.rank()) = exchange->stats().bytes_sent;
    if (group.rank() == 1)
      for (const StateTensor<float>& tensor : exchange->state()) {
        EXPECT_EQ(tensor.count, count);
        sums.state_names.push_back(tensor.name);
      }
  });
  return sums;
}

TEST(Codec, Bf16SumsAreDecodedEncodingsOfTheTreeSumOfDecodedParts) {
  const Bf16 bf16;
  constexpr int64_t kCount = 3000;
  for (int ranks : {2, 3, 7}) {
    const Sums plain = SumsOf(ranks, 1, kCount, nullptr);
    const Sums encoded = SumsOf(ranks, 1, kCount, &bf16);
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(At(encoded.by_step[0], i),
                Truncated(TreeByHand<float>(
                    0, ranks, [&](int r) { return Truncated(OrderSensitive<float>(r, i)); })))
          << i;
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(2 * At(encoded.bytes_sent, r), At(plain.bytes_sent, r));
  }
}

TEST(Codec, ResidualsMakeUpForWhatWasLostAndAreState) {
  const Bf16 without, with(true);
  constexpr int64_t kCount = 40;
  constexpr int kRanks = 3, kSteps = 400;
  const Sums exact = SumsOf(kRanks, 1, kCount, nullptr);
  const auto error = [&](const Sums& sums) {  // of the sum over all steps, at most
    double most = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (const std::vector<float>& step : sums.by_step) sum += At(step, i);
      most = std::max(most, std::abs(sum - kSteps * double{At(exact.by_step[0], i)}));
    }
    return most;
  };
  const Sums fed_back = SumsOf(kRanks, kSteps, kCount, &with);
  EXPECT_LT(error(fed_back), 0.1);
  EXPECT_GT(error(SumsOf(kRanks, kSteps, kCount, &without)), 1.0);
  EXPECT_THAT(fed_back.state_names,
              ::testing::ElementsAre("part residual of p0, rank 1", "sum residual of p0, rank 1"));
}

TEST(Codec, IsRefusedInDoubleAndWhereLateGradientsAreLeftOut) {
  const Bf16 bf16;
  RunRanks(2, [&](Group& group) {
    Arena<float> arena({4});
    std::vector<float> value(4);
    arena.params[0].codec = &bf16;
    arena.params[0].value = value.data();
    try {
      MakeExchange<float>("server", {.group = group,
                                     .params = arena.params,
                                     .update = [](int, Stream&) {},
                                     .scheme = {.timeout = 1}});
      ADD_FAILURE() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("--exchange_timeout"));
    }
    Arena<double> doubles({4});
    doubles.params[0].codec = &bf16;
    EXPECT_THROW(
        MakeExchange<double>(
            "allreduce", {.group = group, .params = doubles.params, .update = [](int, Stream&) {}}),
        ConfigError);
  });
}

// The residuals, too, belong to elements and not to messages.
TEST(Codec, GivesTheSameBitsByAnyExchangeMessageAndBucket) {
  const Bf16 bf16(true);
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "b", "c"}, {"a", "a", "b", "b", "b"}, {"a", "b", "a"}}) {
    const int ranks = static_cast<int>(hosts.size());
    ValuesCase c{.ranks = ranks, .link = OnHosts(hosts), .codec = &bf16};
    const std::vector<float> first = RunValues(c).values;
    for (const char* exchange : {"allreduce", "server", "tree"})
      for (size_t message : {size_t{0}, size_t{100}}) {
        c.exchange = exchange;
        c.settings.message_bytes = message;
        EXPECT_EQ(RunValues(c).values, first) << exchange << ", messages of " << message;
      }
  }
}

// Encoded between hosts only: half of 2 n (H-1)/H bytes leave each host.
TEST(Codec, HalvesTheBytesThatLeaveEachHost) {
  const Bf16 bf16;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "a", "a", "b", "b", "b"},
        {"a", "b", "b", "b", "b"},
        {"a", "a", "b", "b", "c", "c"}}) {
    const HostLayout hosts(names);
    const int64_t n = int64_t{7200} * 2;  // bytes, encoded
    std::vector<int64_t> left(static_cast<size_t>(hosts.hosts()));
    const int ranks = static_cast<int>(names.size());
    SimNetwork network(ranks);
    network.Watch([&](int from, int to, int tag, size_t size) {
      if (tag >= kExchangePayloadTag && hosts.host_of(from) != hosts.host_of(to))
        At(left, hosts.host_of(from)) += static_cast<int64_t>(size);
    });
    SimCluster cluster({.settings = {.hosts = hosts},
                        .ranks = ranks,
                        .counts = {7200},
                        .steps = 2,
                        .payload = false,
                        .codec = &bf16},
                       network);
    cluster.Run();
    ASSERT_TRUE(cluster.complete());
    for (int64_t bytes : left) EXPECT_EQ(bytes, 2 * 2 * (n - n / hosts.hosts()));
  }
}

TEST(Codec, OfAnotherNameOnAnotherRankIsADifferentPlan) {
  const Bf16 bf16;
  const Inverted inverted;
  RunRanks(2, [&](Group& group) {
    Arena<float> arena({4});
    arena.params[0].codec = group.rank() == 0 ? static_cast<const Codec*>(&bf16) : &inverted;
    try {
      MakeExchange<float>("allreduce",
                          {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
      ADD_FAILURE() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("p0(4 as inverted)"));
    }
  });
}

}  // namespace
}  // namespace carafe
