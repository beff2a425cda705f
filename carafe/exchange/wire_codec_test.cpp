#include "carafe/exchange/wire_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/exchange/exchange.h"
#include "carafe/exchange/short_floats.h"
#include "tests/support/param_arena.h"

namespace carafe {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ShortFloats, EveryFiniteCodeIsItsOwnNearest) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<uint16_t>(code);
    const float brain = FromBf16(half), ieee = FromFp16(half);
    if (std::isfinite(brain)) {
      ASSERT_EQ(ToBf16(brain), half);
    }
    if (std::isfinite(ieee)) {
      ASSERT_EQ(ToFp16(ieee), half);
    }
  }
}

TEST(ShortFloats, RoundToNearestEven) {
  EXPECT_EQ(FromBf16(ToBf16(1 + 0x1p-8f)), 1) << "a tie, down to even";
  EXPECT_EQ(FromBf16(ToBf16(1 + 0x1p-8f + 0x1p-20f)), 1 + 0x1p-7f);
  EXPECT_EQ(FromBf16(ToBf16(-(1 + 3 * 0x1p-8f))), -(1 + 0x1p-6f)) << "a tie, up to even";
  EXPECT_EQ(FromFp16(ToFp16(1 + 0x1p-11f)), 1);
  EXPECT_EQ(FromFp16(ToFp16(1 + 3 * 0x1p-11f)), 1 + 0x1p-9f);
  EXPECT_EQ(FromFp16(ToFp16(-0x1p-24f)), -0x1p-24f) << "the smallest";
  EXPECT_EQ(FromFp16(ToFp16(0x1.8p-24f)), 0x1p-23f) << "a tie, up to even";
  EXPECT_EQ(FromFp16(ToFp16(0x1p-26f)), 0);
  EXPECT_EQ(FromFp16(ToFp16(0x1p-14f - 0x1p-30f)), 0x1p-14f) << "up to a normal number";
}

TEST(ShortFloats, NearestOfRandomValues) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(random),
                                   static_cast<int>(random() % 28) - 14);
    ASSERT_LE(std::fabs(FromBf16(ToBf16(value)) - value), std::fabs(value) * 0x1p-8f);
    ASSERT_LE(std::fabs(FromFp16(ToFp16(value)) - value),
              std::max(std::fabs(value) * 0x1p-11f, 0x1p-25f));
  }
}

TEST(ShortFloats, KeepNanAndInfinityAndStayFinite) {
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(kNan))));
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(std::bit_cast<float>(0x7f800001u))))) << "signalling";
  EXPECT_TRUE(std::isnan(FromFp16(ToFp16(kNan))));
  for (float sign : {1.0f, -1.0f}) {
    EXPECT_EQ(FromBf16(ToBf16(sign * kInfinity)), sign * kInfinity);
    EXPECT_EQ(FromFp16(ToFp16(sign * kInfinity)), sign * kInfinity);
    EXPECT_EQ(FromFp16(ToFp16(sign * 1e6f)), sign * 65504);
    EXPECT_TRUE(std::isfinite(FromBf16(ToBf16(sign * std::numeric_limits<float>::max()))));
  }
}

std::vector<float> RoundTrip(const Codec& codec, const std::vector<float>& values,
                             std::vector<float>* residual = nullptr) {
  const int64_t count = Count(values);
  std::vector<std::byte> encoded(codec.EncodedBytes(count));
  codec.Encode(values.data(), count, residual ? residual->data() : nullptr, encoded.data());
  std::vector<float> decoded(values.size(), -1);
  codec.Decode(encoded.data(), count, decoded.data());
  return decoded;
}

TEST(WireCodec, TopKSendsTheLargestAndKeepsTheRest) {
  const auto codec = MakeWireCodec("topk:0.2");
  std::vector<float> residual(10);
  const std::vector<float> values = {1, -9, 2, 3, 0, 4, 8, 5, -6, 7};
  EXPECT_EQ(codec->EncodedBytes(10), 16u);
  EXPECT_EQ(RoundTrip(*codec, values, &residual),
            (std::vector<float>{0, -9, 0, 0, 0, 0, 8, 0, 0, 0}));
  EXPECT_EQ(residual, (std::vector<float>{1, 0, 2, 3, 0, 4, 0, 5, -6, 7}));
  // Twice what was kept: -12 and 14.
  EXPECT_EQ(RoundTrip(*codec, {0, 0, 0, 0, 0, 0, 0, 0, -6, 7}, &residual),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, -12, 14}));
}

TEST(WireCodec, TopKTakesTheFirstOfEqualsAndSendsAllWhereThatIsShorter) {
  const auto codec = MakeWireCodec("topk:0.25");
  EXPECT_EQ(RoundTrip(*codec, {1, -1, 1, 1, 1, 1, 1, 1}),
            (std::vector<float>{1, -1, 0, 0, 0, 0, 0, 0}));
  for (const std::vector<float>& few : {std::vector<float>{}, {3}, {3, -4}}) {
    EXPECT_EQ(codec->EncodedBytes(Count(few)), few.size() * 4);
    std::vector<float> residual(few.size(), 1);
    const std::vector<float> sent = RoundTrip(*codec, few, &residual);
    for (size_t i = 0; i < few.size(); ++i) {
      EXPECT_EQ(sent[i], few[i] + 1);
      EXPECT_EQ(residual[i], 0);
    }
  }
}

TEST(WireCodec, NanAndInfinityArriveAndLeaveNoTrace) {
  for (const char* name : {"bf16", "fp16", "topk:0.1"}) {
    const auto codec = MakeWireCodec(name);
    std::vector<float> values(20, 1e-3f), residual(20);
    values[3] = kNan;
    values[7] = -kInfinity;
    const std::vector<float> sent = RoundTrip(*codec, values, &residual);
    EXPECT_TRUE(std::isnan(sent[3])) << name;
    EXPECT_EQ(sent[7], -kInfinity) << name;
    for (float left : residual) EXPECT_TRUE(std::isfinite(left)) << name;
  }
}

TEST(WireCodec, ADamagedMessageIsAnError) {
  const auto codec = MakeWireCodec("topk:0.2");
  std::vector<std::byte> encoded(codec->EncodedBytes(10), std::byte{0x7f});
  std::vector<float> values(10);
  EXPECT_THROW(codec->Decode(encoded.data(), 10, values.data()), CommError);
}

TEST(WireCodec, AnUnknownNameListsThoseThatThereAre) {
  EXPECT_EQ(MakeWireCodec("fp32"), nullptr);
  for (const char* name : {"", "int8", "topk", "topk:", "topk:0", "topk:1", "topk:-1", "topk:nan",
                           "topk:0.1x", "powersgd:4"}) {
    try {
      MakeWireCodec(name);
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("use fp32, bf16, fp16, or topk:R"));
    }
  }
}

// Every rank r minimises |x - c_r|^2 / 2; all of them together end at the mean of c_r. Returns the
// largest distance from it.
double ConvexError(const std::string& wire, ErrorFeedback feedback) {
  constexpr int kRanks = 4, kSteps = 600;
  constexpr int64_t kCount = 200;
  const auto codec = MakeWireCodec(wire, feedback);
  const auto center = [](int rank, int64_t i) {
    return std::sin(static_cast<float>(rank * 77 + i * 13)) * static_cast<float>(rank + 1);
  };
  double error = 0;
  RunRanks(kRanks, [&](Group& group) {
    Arena<float> arena({kCount});
    arena.params[0].codec = codec.get();
    std::vector<float> x(kCount);
    Stream stream;
    const auto exchange = MakeExchange<float>(
        "allreduce", {.group = group, .params = arena.params, .update = [&](int, Stream&) {
                        for (size_t i = 0; i < x.size(); ++i)
                          x[i] -= 0.02f * arena.memory[i] / kRanks;
                      }});
    for (int step = 0; step < kSteps; ++step) {
      for (int64_t i = 0; i < kCount; ++i) At(arena.memory, i) = At(x, i) - center(group.rank(), i);
      exchange->GradientReady(0, 0, stream);
      exchange->Vote({});
      exchange->FinishStep();
      exchange->AwaitVerdict();
      exchange->Drain(0, stream);
    }
    if (group.rank() != 0) return;
    for (int64_t i = 0; i < kCount; ++i) {
      double mean = 0;
      for (int r = 0; r < kRanks; ++r) mean += center(r, i) / kRanks;
      error = std::max(error, std::abs(At(x, i) - mean));
    }
  });
  return error;
}

TEST(WireCodec, ErrorFeedbackReachesTheMinimumOfAConvexProblem) {
  const double exact = ConvexError("fp32", ErrorFeedback::kOn);
  EXPECT_LT(exact, 1e-4);
  EXPECT_LT(ConvexError("bf16", ErrorFeedback::kOn), 1e-3);
  EXPECT_LT(ConvexError("fp16", ErrorFeedback::kOn), 1e-3);
  const double with = ConvexError("topk:0.1", ErrorFeedback::kOn);
  const double without = ConvexError("topk:0.1", ErrorFeedback::kOff);
  EXPECT_LT(with, 0.3);
  EXPECT_GT(without, 3 * with);
}

}  // namespace
}  // namespace carafe
