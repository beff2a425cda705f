// carafe_ops [THREADS]: what is not convolution, one line per case: ms of the fast kernel, ms of
// the one it replaces, and the ratio. Best of several runs that alternate; with one thread in CPU
// time, so that a busy machine disturbs less. The unit tests compare the results.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "carafe/base/random.h"
#include "carafe/kernels/blocked_channels.h"
#include "carafe/kernels/blocked_lrn.h"
#include "carafe/kernels/blocked_pooling.h"
#include "carafe/kernels/channels.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/lrn.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/packed_gemm.h"
#include "carafe/kernels/small_batch.h"
#include "carafe/solvers/update_rule.h"

namespace carafe::benchmark {
namespace {

using Work = std::function<void()>;

std::vector<float> Floats(int64_t count) {
  RandomSequence random(5);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.NextUniform()) - 0.5f;
  return values;
}

class Race {
 public:
  explicit Race(int threads)
      : stream_(CpuDevice(), threads),
        clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {
    fmt::print("{:<44} {:>9} {:>9} {:>6}\n", "ms", "fast", "plain", "ratio");
  }
  Stream& stream() { return stream_; }
  void Run(const std::string& name, const Work& fast, const Work& plain) {
    double best[2] = {1e9, 1e9};
    for (int run = 0; run < 9; ++run) {
      best[0] = std::min(best[0], Seconds(fast));
      best[1] = std::min(best[1], Seconds(plain));
    }
    fmt::print("{:<44} {:9.3f} {:9.3f} {:6.2f}\n", name, best[0] * 1e3, best[1] * 1e3,
               best[1] / best[0]);
  }

 private:
  double Now() const {
    timespec t;
    clock_gettime(clock_, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  double Seconds(const Work& work) const {
    const double start = Now();
    work();
    return Now() - start;
  }
  Stream stream_;
  const clockid_t clock_;
};

void Pooling(Race& race, const std::string& name, int64_t images, int64_t channels,
             PoolGeometry g) {
  Stream& s = race.stream();
  PoolGeometry plain = g;
  g.planes = images * channels / kBlockChannels;
  plain.planes = images * channels;
  const std::vector<float> x = Floats(plain.planes * g.in_size());
  std::vector<float> y(static_cast<size_t>(plain.planes * g.out_size())), dx(x.size());
  std::vector<uint8_t> where(y.size());
  std::vector<int32_t> mask(y.size());
  race.Run(
      "max pooling " + name + " forward",
      [&] { BlockedMaxPoolForward(s, g, channels, x.data(), y.data(), where.data()); },
      [&] { MaxPoolForward(s, plain, x.data(), y.data(), mask.data()); });
  race.Run(
      "max pooling " + name + " backward",
      [&] { BlockedMaxPoolBackward(s, g, where.data(), y.data(), dx.data()); },
      [&] { MaskedPoolBackward<float>(s, plain, mask.data(), y.data(), dx.data()); });
}

void Lrn(Race& race) {
  Stream& s = race.stream();
  const BlockedGeometry g{16, 192, 56 * 56};
  const LrnNumbers n{1, 2e-5f, 0.75f};
  const int64_t count = g.count();
  const std::vector<float> x = Floats(count);
  std::vector<float> y(x), dx(x), squares(x), scale(x), sums(x);
  race.Run(
      "LRN 16x192x56x56 forward", [&] { BlockedLrnAcrossForward(s, g, 2, n, x.data(), y.data()); },
      [&] {
        Multiply(s, count, x.data(), x.data(), squares.data());
        WindowSum<float>(s, g.images, g.channels, g.plane, 2, squares.data(), scale.data());
        LrnForward(s, count, n.k, n.a, n.beta, x.data(), scale.data(), y.data());
      });
  race.Run(
      "LRN 16x192x56x56 backward",
      [&] { BlockedLrnAcrossBackward(s, g, 2, n, x.data(), y.data(), dx.data()); },
      [&] {
        LrnRatio<float>(s, count, y.data(), y.data(), scale.data(), squares.data());
        WindowSum<float>(s, g.images, g.channels, g.plane, 2, squares.data(), sums.data());
        LrnBackward<float>(s, count, n.a, n.beta, x.data(), y.data(), scale.data(), sums.data(),
                           dx.data());
      });
}

void Normalization(Race& race) {
  Stream& s = race.stream();
  const BlockedGeometry g{8, 256, 56 * 56};
  const ChannelAxis axis{g.images, g.channels, g.plane};
  const std::vector<float> x = Floats(g.count()), ones(256, 1.0f);
  std::vector<float> y(x), dx(x), mean(256), variance(256), sums(512);
  race.Run(
      "BatchNorm 8x256x56x56 forward",
      [&] {
        BlockedStatistics(s, g, x.data(), mean.data(), variance.data());
        BlockedNormalize(s, g, mean.data(), ones.data(), nullptr, nullptr, false, x.data(), nullptr,
                         y.data());
      },
      [&] {
        ChannelStatistics(s, axis, x.data(), mean.data(), variance.data());
        NormalizeChannels(s, axis, mean.data(), ones.data(), x.data(), y.data());
      });
  race.Run(
      "BatchNorm 8x256x56x56 backward",
      [&] {
        BlockedNormalizeBackward(
            s, g, {.factor = ones.data(), .x = x.data(), .dy = y.data(), .dx = dx.data()});
      },
      [&] { NormalizeBackward(s, axis, ones.data(), x.data(), y.data(), dx.data()); });
}

void FullyConnected(Race& race, const SmallBatch& b) {
  Stream& s = race.stream();
  const std::vector<float> x = Floats(b.rows * b.inner), w = Floats(b.width * b.inner),
                           dy = Floats(b.rows * b.width);
  std::vector<float> y(dy), dx(x), dw(w);
  const std::string name = fmt::format("{} rows {} -> {}", b.rows, b.inner, b.width);
  race.Run(
      name + " forward", [&] { SmallBatchForward(s, b, x.data(), w.data(), nullptr, y.data()); },
      [&] {
        Gemm<float>(s, Op::kNone, Op::kTrans, b.rows, b.width, b.inner, 1, x.data(), w.data(), 0,
                    y.data());
      });
  race.Run(
      name + " backward data",
      [&] { SmallBatchBackwardData(s, b, dy.data(), w.data(), dx.data()); },
      [&] {
        Gemm<float>(s, Op::kNone, Op::kNone, b.rows, b.inner, b.width, 1, dy.data(), w.data(), 0,
                    dx.data());
      });
  race.Run(
      name + " backward weights",
      [&] { SmallBatchBackwardWeights(s, b, dy.data(), x.data(), dw.data()); },
      [&] {
        Gemm<float>(s, Op::kTrans, Op::kNone, b.width, b.inner, b.rows, 1, dy.data(), x.data(), 1,
                    dw.data());
      });
}

void RecurrentStep(Race& race, int64_t rows, int64_t width, int64_t inner) {
  Stream& s = race.stream();
  const std::vector<float> x = Floats(rows * inner), w = Floats(width * inner);
  std::vector<float> y(static_cast<size_t>(rows * width)),
      packed(static_cast<size_t>(PackedCount(inner, width)));
  PackMatrix(s, Op::kTrans, inner, width, w.data(), packed.data());
  race.Run(
      fmt::format("recurrent step {} rows {} -> {}", rows, inner, width),
      [&] { PackedGemm(s, Op::kNone, rows, width, inner, x.data(), packed.data(), {}, y.data()); },
      [&] {
        Gemm<float>(s, Op::kNone, Op::kTrans, rows, width, inner, 1, x.data(), w.data(), 0,
                    y.data());
      });
}

// The second column is a triad over as many elements, times the six streams of an update over its
// three: what the machine's memory allows.
void Update(Race& race) {
  Stream& s = race.stream();
  constexpr int64_t kCount = 61000000;
  std::vector<float> value = Floats(kCount), gradient(value), history(value);
  const auto rule = RuleRegistry::Instance().Find("SGD")->make_float({.momentum = 0.9});
  UpdateArgs<float> step;
  step.count = kCount;
  step.value = value.data();
  step.gradient = gradient.data();
  step.slots[0] = history.data();
  step.rate = 1e-3f;
  step.l2 = 5e-4f;
  race.Run(
      "momentum SGD, 61 M parameters, against 2 triads", [&] { rule->Apply(s, step); },
      [&] {
        for (int i = 0; i < 2; ++i) {
          Add(s, kCount, value.data(), gradient.data(), history.data());
        }
      });
}

}  // namespace
}  // namespace carafe::benchmark

int main(int argc, char** argv) {
  namespace b = carafe::benchmark;
  b::Race race(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  b::Pooling(race, "3x3/2 16x64x112x112", 16, 64, {0, 112, 112, 56, 56, 3, 3, 2, 2, 0, 0});
  b::Pooling(race, "3x3/1 16x480x14x14", 16, 480, {0, 14, 14, 14, 14, 3, 3, 1, 1, 1, 1});
  b::Pooling(race, "2x2/2 4x64x224x224", 4, 64, {0, 224, 224, 112, 112, 2, 2, 2, 2, 0, 0});
  b::Lrn(race);
  b::Normalization(race);
  b::FullyConnected(race, {1, 4096, 9216});
  b::FullyConnected(race, {4, 4096, 9216});
  b::FullyConnected(race, {8, 4096, 9216});
  b::RecurrentStep(race, 32, 2048, 512);
  b::RecurrentStep(race, 32, 512, 2048);
  b::Update(race);
  return 0;
}
