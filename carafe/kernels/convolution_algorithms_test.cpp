// Every algorithm of every direction against sums over all windows in double.
#include "carafe/kernels/convolution_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "carafe/core/blob.h"
#include "carafe/kernels/blocked_bias.h"
#include "tests/support/blocked_arrays.h"

namespace carafe {
namespace {

using Values = std::vector<float>;

int64_t OutSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

ConvolutionShape Made(ConvolutionShape s) {
  s.out_h = OutSize(s.in_h, s.kernel_h, s.stride_h, s.pad_h, s.dilation_h);
  s.out_w = OutSize(s.in_w, s.kernel_w, s.stride_w, s.pad_w, s.dilation_w);
  return s;
}

// f(src index, weight index, dst index) for each product of the convolution.
template <typename F>
void ForEachProduct(const ConvolutionShape& s, const F& f) {
  const int64_t gi = s.group_in_channels(), go = s.group_out_channels();
  for (int64_t n = 0; n < s.images; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t y = 0; y < s.out_h; ++y) {
        for (int64_t x = 0; x < s.out_w; ++x) {
          const int64_t dst = ((n * s.out_channels + o) * s.out_h + y) * s.out_w + x;
          for (int64_t i = 0; i < gi; ++i) {
            for (int64_t r = 0; r < s.kernel_h * s.kernel_w; ++r) {
              const int64_t h = y * s.stride_h + r / s.kernel_w * s.dilation_h - s.pad_h;
              const int64_t w = x * s.stride_w + r % s.kernel_w * s.dilation_w - s.pad_w;
              if (h < 0 || w < 0 || h >= s.in_h || w >= s.in_w) continue;
              const int64_t c = o / go * gi + i;
              f(((n * s.in_channels + c) * s.in_h + h) * s.in_w + w,
                (o * gi + i) * s.kernel_h * s.kernel_w + r, dst);
            }
          }
        }
      }
    }
  }
}

void ExpectNear(const Values& got, const std::vector<double>& expected, double bound) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(got[i] - expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : HUGE_VAL;
  }
  EXPECT_LE(worst, bound * largest);
}

struct NamedShape {
  const char* name;
  ConvolutionShape shape;
};
void PrintTo(const NamedShape& s, std::ostream* out) { *out << s.name; }

class Algorithms : public ::testing::TestWithParam<std::tuple<NamedShape, int>> {
 protected:
  Algorithms()
      : shape_(Made(std::get<0>(GetParam()).shape)),
        stream_(CpuDevice(), std::get<1>(GetParam())),
        convolution_(shape_, stream_.threads()),
        src_({shape_.images, shape_.in_channels, shape_.in_h, shape_.in_w}),
        dst_({shape_.images, shape_.out_channels, shape_.out_h, shape_.out_w}),
        weights_(NormalFloats(shape_.weight_count(), 1)),
        bias_(NormalFloats(shape_.out_channels, 2)) {
    src_.SetData(stream_, NormalFloats(src_.count(), 3));
    dst_.SetDiff(stream_, NormalFloats(dst_.count(), 4));
  }
  void* Scratch(ConvolutionAlgorithm algorithm, ConvolutionDirection direction) {
    return scratch_.Get(stream_, convolution_.ScratchBytes(algorithm, direction));
  }
  const float* Source(ConvolutionAlgorithm algorithm) {
    return src_.data(stream_, convolution_.source_format(algorithm));
  }

  const ConvolutionShape shape_;
  Stream stream_;
  BlockedConvolution convolution_;
  Blob<float> src_, dst_;
  const Values weights_, bias_;
  Buffer scratch_;
};

constexpr double kBound = 3e-5;

TEST_P(Algorithms, GoForwardWithAndWithoutBiasAndRelu) {
  const Values x = src_.DataToHost(stream_);
  std::vector<double> sums(static_cast<size_t>(dst_.count()));
  ForEachProduct(shape_, [&](int64_t s, int64_t w, int64_t d) {
    sums[static_cast<size_t>(d)] +=
        double{x[static_cast<size_t>(s)]} * weights_[static_cast<size_t>(w)];
  });
  for (const bool with_bias : {false, true}) {
    std::vector<double> expected = sums;
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t plane = static_cast<size_t>(shape_.out_h * shape_.out_w);
      const double bias = bias_[i / plane % bias_.size()];
      if (with_bias) expected[i] = std::max(0.0, expected[i] + bias);
    }
    for (const ConvolutionAlgorithm a : convolution_.Candidates(ConvolutionDirection::kForward)) {
      SCOPED_TRACE(AlgorithmName(a));
      float* y = dst_.overwrite_data(stream_, Format::kBlocked8);
      convolution_.Forward(a, stream_, Source(a), weights_.data(),
                           with_bias ? bias_.data() : nullptr, /*relu=*/with_bias, y,
                           Scratch(a, ConvolutionDirection::kForward));
      const Values padded(y, y + dst_.blocked_geometry().padded_count());
      ExpectNear(dst_.DataToHost(stream_), expected, kBound);
      Blob<float> again(dst_.shape());  // padding channels are zero
      again.SetData(stream_, dst_.DataToHost(stream_));
      EXPECT_EQ(padded, Values(again.data(stream_, Format::kBlocked8),
                               again.data(stream_, Format::kBlocked8) + padded.size()));
    }
  }
}

TEST_P(Algorithms, GiveTheGradientOfTheSource) {
  const Values dy = dst_.DiffToHost(stream_);
  std::vector<double> expected(static_cast<size_t>(src_.count()));
  ForEachProduct(shape_, [&](int64_t s, int64_t w, int64_t d) {
    expected[static_cast<size_t>(s)] +=
        double{dy[static_cast<size_t>(d)]} * weights_[static_cast<size_t>(w)];
  });
  const auto direction = ConvolutionDirection::kBackwardData;
  for (const ConvolutionAlgorithm a : convolution_.Candidates(direction)) {
    SCOPED_TRACE(AlgorithmName(a));
    float* dx = src_.overwrite_diff(stream_, convolution_.source_format(a));
    convolution_.BackwardData(a, dst_.diff(stream_, Format::kBlocked8), weights_.data(), dx,
                              Scratch(a, direction));
    ExpectNear(src_.DiffToHost(stream_), expected, kBound);
  }
}

TEST_P(Algorithms, AddTheGradientOfTheWeights) {
  const Values x = src_.DataToHost(stream_), dy = dst_.DiffToHost(stream_);
  std::vector<double> expected(weights_.begin(), weights_.end());
  ForEachProduct(shape_, [&](int64_t s, int64_t w, int64_t d) {
    expected[static_cast<size_t>(w)] +=
        double{dy[static_cast<size_t>(d)]} * x[static_cast<size_t>(s)];
  });
  const auto direction = ConvolutionDirection::kBackwardWeights;
  for (const ConvolutionAlgorithm a : convolution_.Candidates(direction)) {
    SCOPED_TRACE(AlgorithmName(a));
    Values dw = weights_;
    convolution_.BackwardWeights(a, Source(a), dst_.diff(stream_, Format::kBlocked8), dw.data(),
                                 Scratch(a, direction));
    ExpectNear(dw, expected, kBound);
  }
}

// What an image gives must not depend on how many others a worker has.
TEST_P(Algorithms, GiveAnImageTheSameBitsInABatchOfAnySize) {
  ConvolutionShape one = shape_;
  one.images = 1;
  BlockedConvolution single(one, stream_.threads());
  const auto bits = [](const float* values, int64_t count) {
    return Values(values, values + count);
  };
  for (const auto direction :
       {ConvolutionDirection::kForward, ConvolutionDirection::kBackwardData}) {
    const bool forward = direction == ConvolutionDirection::kForward;
    EXPECT_EQ(single.Candidates(direction), convolution_.Candidates(direction));
    for (const ConvolutionAlgorithm a : convolution_.Candidates(direction)) {
      SCOPED_TRACE(testing::Message() << AlgorithmName(a) << " " << DirectionName(direction));
      const Format format = convolution_.source_format(a);
      Blob<float> in(forward ? src_.shape() : dst_.shape());
      Blob<float> out(forward ? dst_.shape() : src_.shape());
      const Format in_format = forward ? format : Format::kBlocked8;
      const Format out_format = forward ? Format::kBlocked8 : format;
      in.SetData(stream_, NormalFloats(in.count(), 5));
      const auto floats = [&](const Blob<float>& blob, Format of) {
        return (of == Format::kPlain ? blob.count() : blob.blocked_geometry().padded_count()) /
               shape_.images;
      };
      const auto run = [&](BlockedConvolution& with, int64_t image, Blob<float>& to) {
        const float* x = in.data(stream_, in_format) + image * floats(in, in_format);
        float* y = to.overwrite_data(stream_, out_format);
        void* scratch = scratch_.Get(stream_, with.ScratchBytes(a, direction));
        if (forward) {
          with.Forward(a, stream_, x, weights_.data(), bias_.data(), false, y, scratch);
        } else {
          with.BackwardData(a, x, weights_.data(), y, scratch);
        }
        return y;
      };
      const int64_t count = floats(out, out_format);
      const Values all = bits(run(convolution_, 0, out), count * shape_.images);
      for (int64_t image = 0; image < shape_.images; ++image) {
        EXPECT_EQ(bits(run(single, image, out), count), bits(all.data() + image * count, count));
      }
    }
  }
}

const NamedShape kShapes[] = {
    {"5x5WithoutBorder",
     {.images = 5,
      .in_channels = 16,
      .out_channels = 16,
      .in_h = 12,
      .in_w = 12,
      .kernel_h = 5,
      .kernel_w = 5}},
    {"3x3",
     {.images = 2,
      .in_channels = 16,
      .out_channels = 24,
      .in_h = 9,
      .in_w = 7,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"5x5",
     {.images = 2,
      .in_channels = 8,
      .out_channels = 16,
      .in_h = 8,
      .in_w = 9,
      .kernel_h = 5,
      .kernel_w = 5,
      .pad_h = 2,
      .pad_w = 2}},
    {"1x1", {.images = 3, .in_channels = 24, .out_channels = 16, .in_h = 5, .in_w = 5}},
    {"1x1Strided",
     {.images = 2,
      .in_channels = 16,
      .out_channels = 32,
      .in_h = 8,
      .in_w = 7,
      .stride_h = 2,
      .stride_w = 2}},
    {"FewChannels",
     {.images = 2,
      .in_channels = 3,
      .out_channels = 16,
      .in_h = 15,
      .in_w = 14,
      .kernel_h = 7,
      .kernel_w = 7,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 3,
      .pad_w = 3}},
    {"OneChannel",
     {.images = 2,
      .in_channels = 1,
      .out_channels = 20,
      .in_h = 12,
      .in_w = 12,
      .kernel_h = 5,
      .kernel_w = 5}},
    {"OddChannels",
     {.images = 2,
      .in_channels = 20,
      .out_channels = 50,
      .in_h = 8,
      .in_w = 8,
      .kernel_h = 5,
      .kernel_w = 5}},
    {"OddChannels3x3",
     {.images = 3,
      .in_channels = 5,
      .out_channels = 7,
      .in_h = 6,
      .in_w = 6,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"Groups",
     {.images = 2,
      .groups = 2,
      .in_channels = 16,
      .out_channels = 32,
      .in_h = 7,
      .in_w = 7,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"GroupsWithinABlock",
     {.images = 1,
      .groups = 4,
      .in_channels = 8,
      .out_channels = 8,
      .in_h = 5,
      .in_w = 5,
      .kernel_h = 3,
      .kernel_w = 3}},
    {"Depthwise",
     {.images = 2,
      .groups = 16,
      .in_channels = 16,
      .out_channels = 16,
      .in_h = 9,
      .in_w = 8,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 1,
      .pad_w = 1}},
    {"Dilated",
     {.images = 2,
      .in_channels = 8,
      .out_channels = 8,
      .in_h = 10,
      .in_w = 11,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 2,
      .pad_w = 2,
      .dilation_h = 2,
      .dilation_w = 2}},
    {"WindowsLeftOver",
     {.images = 1,
      .in_channels = 8,
      .out_channels = 8,
      .in_h = 10,
      .in_w = 9,
      .kernel_h = 3,
      .kernel_w = 2,
      .stride_h = 4,
      .stride_w = 3}},
    {"WidePads",
     {.images = 1,
      .in_channels = 16,
      .out_channels = 8,
      .in_h = 4,
      .in_w = 5,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 4,
      .pad_w = 3}},
    {"Skewed",
     {.images = 2,
      .in_channels = 16,
      .out_channels = 8,
      .in_h = 8,
      .in_w = 6,
      .kernel_h = 1,
      .kernel_w = 7,
      .stride_h = 2,
      .pad_w = 3}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, Algorithms,
                         ::testing::Combine(::testing::ValuesIn(kShapes), ::testing::Values(1, 2)));

ConvolutionShape SquareKernel(int64_t size, int64_t channels) {
  return Made({.images = 2,
               .in_channels = channels,
               .out_channels = channels,
               .in_h = 14,
               .in_w = 14,
               .kernel_h = size,
               .kernel_w = size,
               .pad_h = size / 2,
               .pad_w = size / 2});
}
ConvolutionShape Kernel3(int64_t channels) { return SquareKernel(3, channels); }

TEST(AlgorithmChoices, FollowTheRuleTheWishAndTheMeasurement) {
  using enum ConvolutionAlgorithm;
  const auto forward = ConvolutionDirection::kForward;
  BlockedConvolution wide(Kernel3(32), 1);
  EXPECT_EQ(wide.Choose({}, forward), kWinograd4x4);
  EXPECT_EQ(wide.Choose({.asked = "gemm"}, forward), kPlain);
  EXPECT_EQ(wide.Choose({.asked = "winograd2x2"}, forward), kWinograd2x2);
  const AlgorithmChoices measured = {.measured = {{ChoiceKey(Kernel3(32), forward), kWinograd2x2}}};
  EXPECT_EQ(wide.Choose(measured, forward), kWinograd2x2);
  EXPECT_EQ(wide.Choose(measured, ConvolutionDirection::kBackwardData), kWinograd4x4);
  ConvolutionShape share = Kernel3(32);
  share.images = 1;  // of a worker among two: what was measured counts for it as well
  EXPECT_EQ(BlockedConvolution(share, 1).Choose(measured, forward), kWinograd2x2);
  BlockedConvolution narrow(Kernel3(8), 1);
  EXPECT_EQ(narrow.Choose({.asked = "winograd"}, forward), kWinograd4x4);
  EXPECT_NE(narrow.Choose({}, forward), kWinograd4x4);
  BlockedConvolution larger(SquareKernel(5, 32), 1);
  EXPECT_EQ(larger.Choose({}, forward), kWinograd4x4Of5);
  EXPECT_EQ(larger.Choose({.asked = "winograd"}, forward), kWinograd4x4Of5);
  EXPECT_EQ(larger.Choose({.asked = "winograd2x2"}, forward), kWinograd5x5);
  EXPECT_TRUE(AlgorithmChoices{}.IsKnown());
  EXPECT_FALSE(AlgorithmChoices{.asked = "fft"}.IsKnown());
}

TEST(ShapeText, TellsShapesApart) {
  EXPECT_EQ(ShapeText(Kernel3(32)), "3x3p1 32->32 14x14");
  EXPECT_EQ(ShapeText(Made({.images = 1,
                            .groups = 2,
                            .in_channels = 4,
                            .out_channels = 6,
                            .in_h = 9,
                            .in_w = 8,
                            .kernel_h = 1,
                            .kernel_w = 3,
                            .stride_h = 2,
                            .stride_w = 2,
                            .pad_w = 1,
                            .dilation_h = 3})),
            "1x3s2p0x1d3x1 4->6 g2 9x8");
}

TEST(BlockedBias, MasksByReluAndAddsSums) {
  for (const int threads : {1, 2}) {
    Stream stream(CpuDevice(), threads);
    const Shape shape{3, 11, 20, 15};
    Blob<float> top(shape);
    const Values y = NormalFloats(top.count(), 1), dy = NormalFloats(top.count(), 2);
    top.SetData(stream, y);
    top.SetDiff(stream, dy);
    Values masked = dy, d_bias(11, 1.0f);
    std::vector<double> sums(11, 1.0);
    for (size_t i = 0; i < y.size(); ++i) {
      if (!(y[i] > 0)) masked[i] = 0;
      sums[i / 300 % 11] += masked[i];
    }
    BlockedReluBiasBackward(stream, top.blocked_geometry(), top.data(stream, Format::kBlocked8),
                            top.mutable_diff(stream, Format::kBlocked8), d_bias.data());
    EXPECT_EQ(top.DiffToHost(stream), masked);
    ExpectNear(d_bias, sums, 1e-6);
    BlockedReluBiasBackward(stream, top.blocked_geometry(), nullptr,
                            top.mutable_diff(stream, Format::kBlocked8), d_bias.data());
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += sums[c] - 1;
    ExpectNear(d_bias, sums, 1e-6);
    EXPECT_EQ(top.DiffToHost(stream), masked);
  }
}

TEST(BlockedBias, ReluKeepsNotANumber) {
  Stream stream;
  Blob<float> blob({1, 8, 1, 1});
  blob.SetData(stream, Values{-1, 0, 2, NAN, -INFINITY, INFINITY, -0.5f, 3});
  BlockedRelu(stream, blob.blocked_geometry(), blob.mutable_data(stream, Format::kBlocked8));
  const Values y = blob.DataToHost(stream);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[2], 2);
  EXPECT_EQ(y[4], 0);
  EXPECT_EQ(y[5], INFINITY);
}

}  // namespace
}  // namespace carafe
