#include "tests/support/exchange_values.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "carafe/base/index.h"
#include "carafe/exchange/staged_exchange.h"
#include "tests/support/param_arena.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

const std::vector<int64_t> kCounts = {500, 0, 1, 25, 2011, 7};
constexpr int kSteps = 3;

class Floats {
 public:
  Floats(Device& device, size_t count)
      : device_(device), data_(static_cast<float*>(device_.Allocate(count * sizeof(float)))) {}
  Floats(Floats&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  ~Floats() {
    if (data_) device_.Free(data_);
  }
  float* data() const { return data_; }

 private:
  Device& device_;
  float* data_;
};

// y[i] += x(i) for memory of the stream's device.
template <typename F>
void Add(Stream& stream, float* y, int64_t count, const F& x) {
  std::vector<float> host(static_cast<size_t>(count));
  stream.CopyToHost<float>(host, y);
  for (int64_t i = 0; i < count; ++i) At(host, i) += x(i);
  stream.CopyFromHost<float>(y, host);
}

class Rank {
 public:
  Rank(const ValuesCase& c, Group& group)
      : case_(c), group_(group), layout_(kCounts), seen_(static_cast<size_t>(c.workers)) {
    const bool own_values = c.devices.size() > 1;
    DeviceWorkers<float> on_devices;
    for (int w = 0; w < c.workers; ++w) {
      Stream& stream = streams_.emplace_back(DeviceOf(w));
      gradients_.emplace_back(stream.device(), layout_.memory.size());
      if (w == 0 || own_values) values_.emplace_back(stream.device(), layout_.memory.size());
      on_devices.streams.push_back(&stream);
      on_devices.values.emplace_back();
      for (const ParamInfo<float>& param : layout_.params)
        if (own_values) on_devices.values.back().push_back(values_[w].data() + param.arena_offset);
    }
    params_ = layout_.params;
    for (ParamInfo<float>& param : params_) {
      param.value = values_[0].data() + param.arena_offset;
      param.gradient = gradients_[0].data() + param.arena_offset;
      for (int w = 1; w < c.workers; ++w)
        param.other_gradients.push_back(At(gradients_, w).data() + param.arena_offset);
      param.memory = streams_[0].device().kind();
      if (&param != &params_.front()) param.codec = c.codec;
    }
    const ExchangeSetup<float> setup{.group = group,
                                     .params = params_,
                                     .update = [this](int p, Stream& stream) { Update(p, stream); },
                                     .workers = c.workers,
                                     .update_needs_all = c.needs_all,
                                     .bucket_bytes = 600,
                                     .overlap = c.overlap,
                                     .scheme = c.settings};
    exchange_ = c.devices.empty() ? MakeExchange<float>(c.exchange, setup)
                                  : MakeStagedExchange<float>(c.exchange, setup, on_devices);
  }

  void Step(int step) {
    std::vector<std::thread> threads;
    for (int w = 0; w < case_.workers; ++w) threads.emplace_back([=, this] { Pass(w, step); });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& values : seen_) EXPECT_EQ(values, seen_[0]);
    exchange_->FinishStep();
    EXPECT_EQ(exchange_->AwaitVerdict().weight, group_.size());
  }

  std::vector<float> Values() {
    exchange_->Drain(0, streams_[0]);
    std::vector<float> values = ValuesOf(0);
    for (int w = 1; w < Count(values_); ++w) EXPECT_EQ(ValuesOf(w), values);
    return values;
  }
  int64_t bytes_sent() const { return exchange_->stats().bytes_sent; }

 private:
  Device& DeviceOf(int w) const {
    return case_.devices.empty() ? CpuDevice() : *At(case_.devices, w % Count(case_.devices));
  }
  // As worker w reads them.
  std::vector<float> ValuesOf(int w) {
    std::vector<float> values(layout_.memory.size());
    At(streams_, w).CopyToHost<float>(values, At(values_, w % Count(values_)).data());
    return values;
  }

  void Update(int p, Stream& stream) {
    const ParamInfo<float>& param = At(params_, p);
    std::vector<float> sum(static_cast<size_t>(param.count));
    stream.CopyToHost<float>(sum, param.gradient);
    Add(stream, param.value, param.count, [&](int64_t i) { return At(sum, i); });
    stream.Zero(param.gradient, sum.size());
  }

  // Forward and backward of one worker.
  void Pass(int w, int step) {
    Stream& stream = At(streams_, w);
    for (int p = 0; p < Count(kCounts); ++p) exchange_->AwaitValue(w, p, stream);
    exchange_->FinishReads(w, stream);
    At(seen_, w) = ValuesOf(w);
    if (w == 0) exchange_->Vote({.weight = 1});
    const int worker = group_.rank() * case_.workers + w;
    std::mt19937 random(static_cast<unsigned>(case_.delay_seed * 1000 + step * 100 + worker));
    for (int p = Count(kCounts); p-- > 0;) {
      if (case_.delay_seed != 0 && random() % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
      const ParamInfo<float>& param = At(params_, p);
      Add(stream, w == 0 ? param.gradient : At(param.other_gradients, w - 1), param.count,
          [&](int64_t i) { return OrderSensitive<float>(worker, step * 31 + p * 613 + i); });
      exchange_->GradientReady(w, p, stream);
    }
  }

  const ValuesCase& case_;
  Group& group_;
  const Arena<float> layout_;
  std::deque<Stream> streams_;            // by worker
  std::vector<Floats> values_;            // of all workers, or by worker
  std::vector<Floats> gradients_;         // by worker
  std::vector<std::vector<float>> seen_;  // by worker: the values in this step
  std::vector<ParamInfo<float>> params_;
  std::unique_ptr<Exchange<float>> exchange_;
};

}  // namespace

ValuesResult RunValues(const ValuesCase& c) {
  std::vector<std::vector<float>> values(static_cast<size_t>(c.ranks));
  ValuesResult result{.bytes_sent = std::vector<int64_t>(static_cast<size_t>(c.ranks))};
  RunRanks(
      c.ranks,
      [&](Group& group) {
        Rank rank(c, group);
        for (int step = 0; step < kSteps; ++step) rank.Step(step);
        At(values, group.rank()) = rank.Values();
        At(result.bytes_sent, group.rank()) = rank.bytes_sent();
      },
      {}, c.link);
  for (const std::vector<float>& of_rank : values) EXPECT_EQ(of_rank, values[0]);
  result.values = values[0];
  return result;
}

std::vector<float> ValuesAfter(const std::string& exchange, int ranks, int workers, bool overlap,
                               bool needs_all, const SchemeSettings& settings, int delay_seed,
                               const RankLink& link) {
  return RunValues({exchange, ranks, workers, overlap, needs_all, settings, delay_seed, link})
      .values;
}

}  // namespace carafe
